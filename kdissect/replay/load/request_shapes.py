"""Which requests teach a replay the same: their shapes, and the numbers in which those of a shape differ.

Most requests of a busy capture say what an earlier one on their connection said. A *shape* is all that the
load learns (see `analysis`) from a request and its response: the connection, the versions, the names, the
errors. What remains are *facts*: offsets, sequence numbers and sizes, as columns. So one request of a shape
is decoded, and the others are known by their facts.

In: batches of exchanges. Out: for each exchange the number of its shape, NO_SHAPE for one that has to be
decoded, and its facts: a row of numbers for each partition, with the columns of its API (`ProducedFacts`,
`FetchedFacts`). All Produce requests of record batches have facts, with a shape or without.
"""

import hashlib
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.api_mask import in_apis
from kdissect.protocol.schema.definition import fields_at
from kdissect.protocol.schema.registry import APIS
from kdissect.replay.load.shaped_messages import ShapedMessages
from kdissect.streams.engine import ExchangeBatch
from kdissect.streams.flow_state import (
    ANSWERED,
    BEFORE_VERSIONS,
    NO_ANSWER,
    Int64s,
)
from kdissect.tables.message_columns import MessageColumns, read_messages

NO_SHAPE = -1
MOST_SHAPES = 1 << 14  # of the connections of one task
MOST_KEY_BYTES = 32 << 20  # of these together
MOST_BYTES = 1024  # of a frame that belongs to a shape as it is
CORRELATION_BYTES = 4

EXACT = frozenset(
    {
        ApiKey.API_VERSIONS,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        ApiKey.FIND_COORDINATOR,
        ApiKey.HEARTBEAT,
        ApiKey.METADATA,
        ApiKey.OFFSET_FETCH,
    }
)
"""APIs with one shape for requests and responses of the same bytes."""

SHAPED = EXACT | {ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.OFFSET_COMMIT}
SAME_BODY = EXACT | {ApiKey.LIST_OFFSETS}
"""APIs whose requests of one shape are equal byte by byte."""


EMPTY = np.zeros(0, np.int64)


class ShapedBatch(NamedTuple):
    """Shapes of some exchanges, and their facts one after the other: `counts` says how many each has."""

    shapes: Int64s
    counts: Int64s
    facts: Int64s


class RequestShapes:
    """Numbers the shapes of some connections. `salt` is secret, and that of all tasks of a log."""

    def __init__(self, salt: bytes) -> None:
        self._salt = salt
        self._numbers: dict[tuple[object, ...], int] = {}
        self._bytes = 0  # of all keys
        self._proven: dict[int, bool] = {}  # whether messages of a shape can be decoded

    def __len__(self) -> int:
        return len(self._numbers)

    def of(self, batch: ExchangeBatch) -> ShapedBatch:
        """Return the shapes of exchanges that all have a request."""
        parts = [self._of_part(*columns) for columns in _parts(batch)]
        return ShapedBatch(*(np.concatenate([EMPTY, *column]) for column in zip(*parts, strict=True)))

    def hash(self, text: str | bytes) -> int:
        """Return a number for a text, equal in all tasks of a log."""
        data = text if isinstance(text, bytes) else text.encode()
        digest = hashlib.blake2b(data, digest_size=8, key=self._salt).digest()
        return int.from_bytes(digest, "big")

    def _of_part(
        self, batch: ExchangeBatch, request: MessageColumns | None, response: MessageColumns | None
    ) -> ShapedBatch:
        count = len(batch.exchanges)
        shapes, counts = np.full(count, NO_SHAPE, np.int64), np.zeros(count, np.int64)
        if request is None or response is None:  # Kafka 0.7
            return ShapedBatch(shapes, counts, EMPTY)
        view = ShapedMessages(batch, request, response, self.hash)
        facts = []
        for row in np.flatnonzero(view.readable & in_apis(batch.exchanges["api_key"], SHAPED)).tolist():
            key = SHAPES_OF.get(view.keys[row], _exact)(view, row)
            shapes[row] = self._number(key, view, row)
            numbers = view.facts(row)
            if numbers is not None:
                facts.append(numbers)
                counts[row] = len(numbers)
        return ShapedBatch(shapes, counts, np.concatenate([EMPTY, *facts]))

    def _number(self, key: tuple[object, ...] | None, view: ShapedMessages, row: int) -> int:
        if key is None:
            return NO_SHAPE
        known = self._numbers.get(key)
        if known is None:
            self._bytes += sum(len(part) for part in key if isinstance(part, bytes))
            if len(self._numbers) >= MOST_SHAPES or self._bytes > MOST_KEY_BYTES:
                return NO_SHAPE
            known = self._numbers[key] = len(self._numbers)
            return known
        proven = self._proven.get(known)
        if proven is None:  # the second one: now it is worth a look
            proven = self._proven[known] = view.can_be_decoded(row)
        return known if proven else NO_SHAPE


def _parts(
    batch: ExchangeBatch,
) -> Iterator[tuple[ExchangeBatch, MessageColumns | None, MessageColumns | None]]:
    """Yield parts of a batch in its order, with their columns; None for those of Kafka 0.7."""
    is_old = batch.exchanges["api_version"] == BEFORE_VERSIONS
    for rows in np.split(batch.exchanges, np.flatnonzero(np.diff(is_old)) + 1):
        part = batch._replace(exchanges=rows)
        if len(rows) and rows["api_version"][0] == BEFORE_VERSIONS:
            yield part, None, None
        else:
            yield from read_messages(part)


def _exact(view: ShapedMessages, row: int) -> tuple[object, ...] | None:
    request, response = view.frame(view.request, row), view.frame(view.response, row)
    if max(len(request), len(response)) > MOST_BYTES:
        return None
    return *view.common(row), request[:4], request[8:], response[4:]


def _list_offsets(view: ShapedMessages, row: int) -> tuple[object, ...] | None:
    request = view.frame(view.request, row)
    if len(request) > MOST_BYTES:
        return None
    return *view.common(row), request[:4], request[8:], view.answered(row)


def _offset_commit(view: ShapedMessages, row: int) -> tuple[object, ...] | None:
    head = view.head(row)
    return None if head is None else (*view.common(row), head, view.asked(row), view.answered(row))


def _produce(view: ShapedMessages, row: int) -> tuple[object, ...] | None:
    head, rows = view.head(row), view.request.rows(row)
    if head is None or view.transactional[row] or not view.is_produced[rows].all():
        return None
    if view.status[row] == ANSWERED and not view.same_partitions(row):
        return None
    if (view.request.records["producer_id"][rows] < 0).any():
        errors = view.response.integer("error_code")[0][view.response.rows(row)]
        if view.status[row] == NO_ANSWER or (errors != 0).any():
            return None  # its records may come again
    return *view.common(row), head, view.asked(row), view.answered(row)


def _fetch(view: ShapedMessages, row: int) -> tuple[object, ...] | None:
    version, client = view.versions[row], view.client_stop[row]
    session, epoch, issued = 0, -1, 0
    place = session_place(version)
    if place is not None:
        flexible = version in APIS[ApiKey.FETCH].flexible
        if flexible and view.arena[client] != 0:  # tagged fields of the header
            return None
        begin = client + flexible + place.request
        session, epoch = (_int32(view.arena, each) for each in (begin, begin + 4))
        if view.response.present[row]:
            body = view.response.start[row] + CORRELATION_BYTES
            if flexible and view.arena[body] != 0:
                return None
            issued = _int32(view.arena, body + flexible + place.response)
    if (
        epoch == 0
        or (epoch < 0 and (session or issued))
        or not view.is_fetched[view.response.rows(row)].all()
    ):
        return None
    name = bytes(view.arena[view.client_start[row] : client])
    request = version, name, view.replica[row], session, epoch > 0, issued
    return *view.common(row), *request, view.asked(row), view.answered(row)


def _int32(data: memoryview, position: int) -> int:
    return int.from_bytes(data[position : position + 4], "big", signed=True)


class SessionPlace(NamedTuple):
    """Where the id of a fetch session stands in the bodies of request and response; its epoch follows."""

    request: int
    response: int


FIXED = {"int8": 1, "int16": 2, "int32": 4, "int64": 8, "bool": 1}  # bytes


@cache
def session_place(version: int) -> SessionPlace | None:
    """Return where the session stands in Fetch messages of a version; None if it has no sessions."""
    places = []
    for message in (APIS[ApiKey.FETCH].request, APIS[ApiKey.FETCH].response):
        position = 0
        for field in fields_at(message, version):
            if field.name == "session_id":
                places.append(position)
                break
            if field.type not in FIXED or field.array:
                return None
            position += FIXED[field.type]
    return SessionPlace(*places) if len(places) == 2 else None


SHAPES_OF = {
    ApiKey.PRODUCE: _produce,
    ApiKey.FETCH: _fetch,
    ApiKey.LIST_OFFSETS: _list_offsets,
    ApiKey.OFFSET_COMMIT: _offset_commit,
}
"""API -> what makes the shape of an exchange; `_exact` for all others."""


def fact_lists(batches: list[ShapedBatch]) -> pa.ChunkedArray:
    """Return the facts of batches as lists, one for each exchange."""
    lists = []
    for batch in batches:
        edges = np.concatenate([[0], np.cumsum(batch.counts)]).astype(np.int32)
        lists.append(pa.ListArray.from_arrays(pa.array(edges), pa.array(batch.facts)))
    return pa.chunked_array(lists, pa.list_(pa.int64()))
