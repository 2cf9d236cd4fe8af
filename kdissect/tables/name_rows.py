"""The tables `names` and `brokers` alone, for filters that must know them before anything is selected.

In come the segments of some connections, as `build.dissect_batches` takes them. Out go the same rows of both
tables as it yields, without the other tables. Few APIs have messages that name a topic beside its id, or that
give the address of a node. The schema says which, and only those messages are read.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cache

import numpy as np
import pyarrow as pa

from kdissect.array_types import Bools
from kdissect.capture.index.splits import Split
from kdissect.protocol.schema.definition import Field, Message, fields_at
from kdissect.protocol.schema.registry import APIS, highest_versions
from kdissect.streams.engine import ExchangeBatch
from kdissect.streams.flow_state import ANSWERED, ORPHAN_RESPONSE, REQUEST_SIDE, RESPONSE_SIDE, SASL_TOKEN
from kdissect.streams.tls.decrypt_stage import new_flow_processor
from kdissect.streams.tls.keylog import NO_KEYS, KeyLog
from kdissect.tables.build import Batches, by_split
from kdissect.tables.message_columns import MessageColumns
from kdissect.tables.topic_ids import KNOWN_NAMES, listening_nodes, named_topics

KEYS, VERSIONS = 1 << 8, 1 << 6
"""More API keys and versions than there are."""

TELLING = ({"topic", "topic_id"}, {"host"})
"""Roles of fields. A message with all roles of one of these sets may have rows of `names` or `brokers`."""


def name_batches(
    segments: Iterable[pa.RecordBatch], splits: Sequence[Split], keys: KeyLog = NO_KEYS
) -> Iterator[Batches]:
    """Yield batches of the tables `names` and `brokers` for all connections in `segments`.

    The arguments are those of `build.dissect_batches`. Rows may occur several times.
    """
    yield {"names": KNOWN_NAMES}
    versions = np.array(highest_versions(), np.int64)
    processor = new_flow_processor(splits, versions, keys, tokens=True, follows_tcp=False)
    for of_split in by_split(segments):
        for batch in processor.feed(of_split):
            yield from _names_of(batch)
    for batch in processor.close():
        yield from _names_of(batch)


def _names_of(batch: ExchangeBatch) -> Iterator[Batches]:
    exchanges = batch.exchanges
    status = exchanges["status"]
    has_side = {
        REQUEST_SIDE: (status != ORPHAN_RESPONSE) & (status != SASL_TOKEN),
        RESPONSE_SIDE: status == ANSWERED,
    }
    key, version = exchanges["api_key"], exchanges["api_version"]
    is_known = (key >= 0) & (key < KEYS) & (version >= 0) & (version < VERSIONS)
    for side, present in has_side.items():
        rows = np.flatnonzero(is_known & present)
        rows = rows[telling_messages(side)[key[rows], version[rows]]]
        while len(rows):  # a message may have very many rows: the reader stops before there are too many
            columns = MessageColumns.read(batch, side, rows)
            yield {"names": named_topics(batch, columns), "brokers": listening_nodes(batch, columns)}
            rows = rows[len(columns.columns.messages) :]


@cache
def telling_messages(side: str) -> Bools:
    """Return which requests or responses may tell a name or an address, by API key and version."""
    telling = np.zeros((KEYS, VERSIONS), np.bool_)
    for key, api in APIS.items():
        message = api.request if side == REQUEST_SIDE else api.response
        for version in message.versions:
            telling[key, version] = any(roles <= _roles(message, version) for roles in TELLING)
    return telling


def _roles(owner: Message | Field, version: int) -> set[str]:
    """Return the roles of all fields that a message has in a version."""
    fields = fields_at(owner, version)
    return {field.role for field in fields if field.role}.union(*(_roles(field, version) for field in fields))
