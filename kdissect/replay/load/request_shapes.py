"""Which requests teach a replay the same: their shapes, and the numbers in which those of a shape differ.

Most requests of a busy capture say what an earlier one on their connection said. A *shape* is all that the
load learns (see `analysis`) from a request and its response: the connection, the versions, the names, the
errors. The rest are *facts*: offsets, sequence numbers and sizes, as columns. So one request of a shape
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
from numpy.typing import NDArray

from kdissect.array_types import Int64s
from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.api_mask import in_apis
from kdissect.protocol.schema.definition import fields_at
from kdissect.protocol.schema.registry import APIS
from kdissect.replay.load.shaped_messages import ShapedMessages
from kdissect.streams.engine import ExchangeBatch
from kdissect.streams.flow_state import BEFORE_VERSIONS
from kdissect.tables.message_columns import MessageColumns, read_messages

NO_SHAPE = -1
MOST_SHAPES = 1 << 14  # of the connections of one task
MOST_KEY_BYTES = 32 << 20  # of these together
MOST_BYTES = 1024  # of a frame that belongs to a shape as it is
CORRELATION_BYTES, REQUEST_TEXT_AT = 4, 8  # in a response; in a request it follows key and version
PAIR = 16  # bytes of a row of partitions in a key

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
HEADED = frozenset({ApiKey.PRODUCE, ApiKey.OFFSET_COMMIT})
"""APIs of which all that matters but partitions stands before the first topic."""

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
        self._numbers: dict[bytes, int] = {}
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
        for row, key in _keys(view):
            shapes[row] = self._number(key, view, row)
        return ShapedBatch(shapes, view.counts, view.facts)

    def _number(self, key: bytes, view: ShapedMessages, row: int) -> int:
        known = self._numbers.get(key)
        if known is None:
            self._bytes += len(key)
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


def _keys(view: ShapedMessages) -> Iterator[tuple[int, bytes]]:
    """Yield the exchanges that have a shape, with bytes that are equal for those of one shape.

    These are numbers of a fixed length, rows of partitions, and texts. The numbers say how many rows follow.
    """
    sessions, settled = _sessions(view)
    keys = view.keys
    exact, listed = in_apis(keys, EXACT), keys == ApiKey.LIST_OFFSETS
    headed = in_apis(keys, HEADED)
    topics = view.first_topics()
    shaped = view.readable & in_apis(keys, SHAPED)
    shaped &= ~((exact | listed) & (view.request.length > MOST_BYTES))
    shaped &= ~(exact & (view.response.length > MOST_BYTES))
    shaped &= ~headed | (topics >= 0)
    refused = view.transactional | ~view.is_produced | view.may_come_again()
    shaped &= ~((keys == ApiKey.PRODUCE) & (refused | (view.answered & ~view.same_partitions())))
    shaped &= (keys != ApiKey.FETCH) | (view.is_fetched & settled)
    asked_rows = np.where(headed | (keys == ApiKey.FETCH), view.request.rows, 0)
    told_rows = np.where(exact, 0, view.response.rows)
    numbers = [view.connections, keys, view.versions, view.status, view.response.error]
    columns = [*numbers, *sessions, asked_rows, told_rows]
    fixed, width = np.stack(columns, axis=1).tobytes(), 8 * len(columns)
    rows = np.flatnonzero(shaped)
    # The text of a request: all that follows the correlation id, or what stands before the first topic.
    begin = np.where(keys == ApiKey.FETCH, view.client_start, view.request.start + REQUEST_TEXT_AT)
    end = np.where(keys == ApiKey.FETCH, view.client_stop, np.where(headed, topics, view.request.stop))
    texts = [begin, end, view.response.start + CORRELATION_BYTES, np.where(exact, view.response.stop, 0)]
    asked, told, data = view.asked().tobytes(), view.told().tobytes(), memoryview(view.bytes.data)
    places = [view.request.edges[:-1], asked_rows, view.response.edges[:-1], told_rows]
    for row, first, last, answer, answer_end, *ranges in zip(
        rows.tolist(), *(column[rows].tolist() for column in (*texts, *places)), strict=True
    ):
        asked_at, asked_count, told_at, told_count = ranges
        key = b"".join(
            (
                fixed[width * row : width * (row + 1)],
                asked[PAIR * asked_at : PAIR * (asked_at + asked_count)],
                told[PAIR * told_at : PAIR * (told_at + told_count)],
                (last - first).to_bytes(4, "big"),
                data[first:last],
                data[answer:answer_end],
            )
        )
        yield row, key


def _sessions(view: ShapedMessages) -> tuple[list[Int64s], NDArray[np.bool_]]:
    """Return columns of the fetch session of each exchange, and where it can be told by them.

    That is not so for fetches that open or close a session.
    """
    count = len(view.keys)
    session, epoch, issued = (
        np.zeros(count, np.int64),
        np.full(count, -1, np.int64),
        np.zeros(count, np.int64),
    )
    settled = np.ones(count, bool)
    fetches = view.readable & (view.keys == ApiKey.FETCH)
    for version in np.unique(view.versions[fetches]).tolist():
        place, rows = session_place(version), np.flatnonzero(fetches & (view.versions == version))
        if place is None:
            continue
        answered = rows[view.answered[rows]]
        client, body = view.client_stop[rows], view.response.start[answered] + CORRELATION_BYTES
        flexible = version in APIS[ApiKey.FETCH].flexible
        if flexible:  # without tagged fields in the headers
            settled[rows[view.bytes[client] != 0]] = False
            settled[answered[view.bytes[body] != 0]] = False
        begin = client + flexible + place.request
        session[rows], epoch[rows] = view.int32s(begin), view.int32s(begin + 4)
        issued[answered] = view.int32s(body + flexible + place.response)
    settled &= (epoch > 0) | ((epoch < 0) & (session == 0) & (issued == 0))
    is_fetch = view.keys == ApiKey.FETCH
    zero = np.zeros(count, np.int64)
    columns = [session, (epoch > 0).astype(np.int64), issued, np.where(is_fetch, view.replica, zero)]
    return columns, settled


class SessionPlace(NamedTuple):
    """Position of a fetch session's id in the bodies of request and response; its epoch follows."""

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


def fact_lists(batches: list[ShapedBatch]) -> pa.ChunkedArray:
    """Return the facts of batches as lists, one for each exchange."""
    lists = []
    for batch in batches:
        edges = np.concatenate([[0], np.cumsum(batch.counts)]).astype(np.int32)
        lists.append(pa.ListArray.from_arrays(pa.array(edges), pa.array(batch.facts)))
    return pa.chunked_array(lists, pa.list_(pa.int64()))
