"""Pass two as one function: pieces of connections in, rows of the public tables out.

`dissect_batches` is pure and knows nothing of Spark. It takes the pieces of some connections, complete and ordered by split and
piece, and gives batches of the tables `exchanges`, `partitions` and, at the end, `connections`; beside them the side
tables `names` (which topic an id means) and `brokers` (where a node listens), learnt from whatever answers say so. The
partition rows of an exchange come with it. What a row says does not depend on how the capture was split.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kdissect.capture.splits import Split
from kdissect.exchange.connections import Learnt, connection_rows
from kdissect.exchange.conversation import Conversations, Harvest
from kdissect.exchange.exchanges import exchange_rows
from kdissect.exchange.old_rows import is_old, old_rows
from kdissect.exchange.partitions import partition_rows
from kdissect.exchange.sides import Side, read_sides
from kdissect.exchange.spans import int_column, text_column, uuid_column
from kdissect.exchange.state import CONNECTION, Int64s
from kdissect.protocol.schema import highest_versions
from kdissect.tables import BROKERS, NAMES

Batches = Mapping[str, pa.RecordBatch]

# The one topic whose id is the same in every cluster (KIP-595, KIP-516), and which no answer names.
KNOWN_NAMES = pa.record_batch([["AAAAAAAAAAAAAAAAAAAAAQ"], ["__cluster_metadata"]], schema=NAMES)


def dissect_batches(pieces: Iterable[pa.RecordBatch], splits: Sequence[Split]) -> Iterator[Batches]:
    """Give batches of tables, by table name, for all connections in `pieces` (rows of PIECES; rows of counts are passed over)."""
    conversations = Conversations(splits, np.array(highest_versions(), np.int64))
    learnt = Learnt()
    for of_split in by_split(pieces):
        for harvest in conversations.feed(of_split):
            yield from _rows(harvest, conversations, learnt, splits)
    for harvest in conversations.close():
        yield from _rows(harvest, conversations, learnt, splits)
    yield {"connections": connection_rows(conversations, learnt), "names": KNOWN_NAMES}


def by_split(pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Cut and join batches so that each holds the pieces of one split, all of them."""
    held: list[pa.RecordBatch] = []
    for batch in pieces:
        split = batch["split"].to_numpy()
        known = np.flatnonzero(batch["piece"].to_numpy() >= 0)
        edges = np.flatnonzero(np.diff(split[known])) + 1
        for rows in np.split(known, edges):
            if len(rows) == 0:
                continue
            part = batch.slice(rows[0], rows[-1] - rows[0] + 1)
            if len(part) != len(rows):
                part = part.filter(pa.array(part["piece"].to_numpy() >= 0))
            if held and held[0]["split"][0] != part["split"][0]:
                yield pa.concat_batches(held)
                held = []
            held.append(part)
    if held:
        yield pa.concat_batches(held)


def _rows(
    harvest: Harvest, conversations: Conversations, learnt: Learnt, splits: Sequence[Split]
) -> Iterator[Batches]:
    old = is_old(harvest)
    if old.any():
        before, harvest = (harvest._replace(exchanges=harvest.exchanges[rows]) for rows in (old, ~old))
        exchanges, partitions, faulty = old_rows(before, _identities(before, conversations), splits)
        learnt.add_faults(before, faulty)
        yield {"exchanges": exchanges, "partitions": partitions}
    if len(harvest.exchanges):
        yield _new_rows(harvest, conversations, learnt, splits)


def _identities(harvest: Harvest, conversations: Conversations) -> Int64s:
    return np.array(conversations.identities, np.int64)[harvest.exchanges[:, CONNECTION]]


def _new_rows(
    harvest: Harvest, conversations: Conversations, learnt: Learnt, splits: Sequence[Split]
) -> Batches:
    request, response = read_sides(harvest)
    identities = _identities(harvest, conversations)
    exchanges, faulty = exchange_rows(harvest, request, response, identities, splits)
    learnt.add(harvest, request, faulty)
    return {
        "exchanges": exchanges,
        "partitions": partition_rows(harvest, request, response, identities),
        "names": _names(harvest, response),
        "brokers": _brokers(harvest, response),
    }


def _names(harvest: Harvest, response: Side) -> pa.RecordBatch:
    """Give the topic ids that come with a name, once each."""
    rows = response.columns.partitions
    topic, topic_id = rows.spans("topic"), rows.spans("topic_id")
    both = np.flatnonzero((topic.start >= 0) & (topic_id.start >= 0))
    # A topic's partitions share its spans: one row per topic is enough.
    both = both[np.unique(topic_id.start[both], return_index=True)[1]]
    named = pa.table(
        {
            "topic_id": uuid_column(harvest.arena, topic_id.start[both]),
            "topic": text_column(harvest.arena, topic.start[both], topic.length[both]),
        },
        schema=NAMES,
    )
    named = named.filter(named["topic_id"].is_valid()).group_by(NAMES.names).aggregate([])
    return _one_batch(named, NAMES)


def _brokers(harvest: Harvest, response: Side) -> pa.RecordBatch:
    """Give the nodes whose address an answer tells, once each."""
    nodes = response.columns.nodes
    node_id, port, host = nodes.integers("node_id"), nodes.integers("port"), nodes.spans("host")
    rows = pa.table(
        {
            "node_id": int_column(node_id.values, node_id.present, pa.int32()),
            "host": text_column(harvest.arena, host.start, host.length),
            "port": int_column(port.values, port.present, pa.int32()),
        },
        schema=BROKERS,
    )
    # An answer with an error names no node: -1, no host.
    rows = rows.filter((pc.field("node_id") >= 0) & (pc.field("port") > 0))
    return _one_batch(rows.group_by(BROKERS.names).aggregate([]), BROKERS)


def _one_batch(rows: pa.Table, schema: pa.Schema) -> pa.RecordBatch:
    columns = [rows[name].combine_chunks() for name in schema.names]
    return pa.record_batch(columns, schema=schema)
