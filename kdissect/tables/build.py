"""Pass two as one function: pieces of connections in, rows of the public tables out.

`dissect_batches` is pure and knows nothing of Spark. It takes the pieces of some connections, complete and ordered by split and
piece, and gives batches of the tables `exchanges`, `partitions` and, at the end, `connections`; beside them the side
tables `names` (which topic an id means) and `brokers` (where a node listens), learnt from whatever answers say so. The
partition rows of an exchange come with it. What a row says does not depend on how the capture was split.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from kdissect.capture.index.splits import Split
from kdissect.protocol.schema.registry import highest_versions
from kdissect.streams.flow_state import SASL_TOKEN, Int64s
from kdissect.streams.processor import ExchangeBatch, FlowProcessor
from kdissect.streams.tls.keylog import NO_KEYS, KeyLog
from kdissect.tables.connections import (
    ConnectionDetails,
    connection_rows,
    end_rows,
)
from kdissect.tables.events import EVENT_SOURCES, event_rows
from kdissect.tables.exchanges import exchange_rows
from kdissect.tables.kafka07_rows import is_kafka07, kafka07_rows
from kdissect.tables.message_columns import MessageColumns, read_messages
from kdissect.tables.partitions import partition_rows
from kdissect.tables.topic_ids import (
    KNOWN_NAMES,
    listening_nodes,
    named_topics,
)

Batches = Mapping[str, pa.RecordBatch]


def dissect_batches(
    pieces: Iterable[pa.RecordBatch],
    splits: Sequence[Split],
    keys: KeyLog = NO_KEYS,
    wanted: Collection[str] = (),
) -> Iterator[Batches]:
    """Give batches of tables, by table name, for all connections in `pieces` (rows of PIECES; rows of counts are passed over).

    With `keys` connections under TLS are read like others. Of the tables on request (`tables.ON_REQUEST`) those are made that
    are `wanted`; ENDS is for those who cannot wait for the connections. Their rows come with the exchanges that they are about.
    """
    conversations = FlowProcessor(splits, np.array(highest_versions(), np.int64), keys, tokens=True)
    learnt = ConnectionDetails()
    for of_split in by_split(pieces):
        for harvest in conversations.feed(of_split):
            yield from _rows(harvest, conversations, learnt, splits, wanted)
    for harvest in conversations.close():
        yield from _rows(harvest, conversations, learnt, splits, wanted)
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
    harvest: ExchangeBatch,
    conversations: FlowProcessor,
    learnt: ConnectionDetails,
    splits: Sequence[Split],
    wanted: Collection[str],
) -> Iterator[Batches]:
    beside = {}
    if "ends" in wanted:
        beside["ends"] = end_rows(conversations, np.unique(harvest.exchanges["connection"]))
    tokens = harvest.exchanges["status"] == SASL_TOKEN
    if tokens.any():  # between the exchanges around them, and no rows of any table
        for rows in np.split(harvest.exchanges, np.flatnonzero(np.diff(tokens)) + 1):
            if rows["status"][0] == SASL_TOKEN:
                learnt.authentications.add_tokens(rows, learnt.known("sasl_mechanism"))
            else:
                part = harvest._replace(exchanges=rows)
                yield from _rows(part, conversations, learnt, splits, wanted)
        return
    old = is_kafka07(harvest)
    if old.any():
        before, harvest = (harvest._replace(exchanges=harvest.exchanges[rows]) for rows in (old, ~old))
        exchanges, partitions, faulty = kafka07_rows(before, _identities(before, conversations), splits)
        learnt.add_faults(before, faulty)
        yield {"exchanges": exchanges, "partitions": partitions, **beside}
    if len(harvest.exchanges):
        for read in read_messages(harvest):
            yield _new_rows(*read, conversations, learnt, splits, wanted) | beside


def _identities(harvest: ExchangeBatch, conversations: FlowProcessor) -> Int64s:
    return np.array(conversations.identities, np.int64)[harvest.exchanges["connection"]]


def _new_rows(
    harvest: ExchangeBatch,
    request: MessageColumns,
    response: MessageColumns,
    conversations: FlowProcessor,
    learnt: ConnectionDetails,
    splits: Sequence[Split],
    wanted: Collection[str],
) -> dict[str, pa.RecordBatch]:
    identities = _identities(harvest, conversations)
    exchanges, faulty = exchange_rows(harvest, request, response, identities, splits)
    learnt.add(harvest, request, faulty)
    learnt.authentications.add(harvest.exchanges, exchanges["error_code"], learnt.known("sasl_mechanism"))
    return {
        "exchanges": exchanges,
        "partitions": partition_rows(harvest, request, response, identities),
        "names": pa.concat_batches([named_topics(harvest, side) for side in (request, response)]),
        "brokers": listening_nodes(harvest, response),
        **{
            table: event_rows(table, harvest, request, response, exchanges)
            for table in EVENT_SOURCES
            if table in wanted
        },
    }
