"""Pass two as one function: pieces of connections in, rows of the public tables out.

`dissect_batches` is pure and knows nothing of Spark. In come the pieces of some connections, complete and
ordered by split and piece. Out go batches of the tables `exchanges` and `partitions` and, at the end,
`connections`, then the tables about TCP if they are wanted. With them come the tables `names` (the name of a
topic id) and `brokers` (the address of a node), from whatever messages tell them.

The partition rows of an exchange come in the same batch of tables. Rows do not depend on how the capture was
split.

A message that was not sent in full, since a reset or the end of the capture came first, is no fault of the
capture. If bytes of the stream were lost, or dropped to save memory, a message may lack them for that reason,
and counts as a fault.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from kdissect.array_types import Bools, Int64s
from kdissect.capture.index.splits import Split
from kdissect.jit.rows import array_of
from kdissect.payload.payload_decoder import PayloadDecoder
from kdissect.protocol.schema.registry import highest_versions
from kdissect.streams.engine import ExchangeBatch
from kdissect.streams.flow_state import REQUEST_SIDE, RESPONSE_SIDE, SASL_TOKEN, TLS, TLS_PASSED
from kdissect.streams.processor import FlowProcessor
from kdissect.streams.tcp.tcp_tracker import STEP_NS
from kdissect.streams.tls.decrypt_stage import new_flow_processor
from kdissect.streams.tls.keylog import NO_KEYS, KeyLog
from kdissect.tables.array_batch import ArrayBatch, array_batch
from kdissect.tables.connections import (
    ConnectionDetails,
    client_sides,
    connection_rows,
    end_rows,
)
from kdissect.tables.events import EVENT_SOURCES, event_rows
from kdissect.tables.exchanges import exchange_rows
from kdissect.tables.kafka07_rows import is_kafka07, kafka07_rows
from kdissect.tables.message_columns import MessageColumns, read_messages
from kdissect.tables.partitions import partition_rows
from kdissect.tables.records import record_parts, record_rows
from kdissect.tables.replica_sets import replica_set_rows
from kdissect.tables.schemas import EXCHANGES, PARTITIONS
from kdissect.tables.share_acknowledgements import share_acknowledgement_rows
from kdissect.tables.tcp_rows import tcp_span_rows, tcp_step_batches
from kdissect.tables.topic_ids import (
    KNOWN_NAMES,
    listening_nodes,
    named_topics,
)

Batches = Mapping[str, pa.RecordBatch | ArrayBatch]  # by name of the table
WITHOUT_SCHEMAS = PayloadDecoder()
SIDE_TABLES = {"replica_sets": replica_set_rows, "share_acknowledgements": share_acknowledgement_rows}
"""Tables made from a batch and its rows of exchanges, beside the public ones."""


def dissect_batches(
    pieces: Iterable[pa.RecordBatch],
    splits: Sequence[Split],
    keys: KeyLog = NO_KEYS,
    wanted: Collection[str] = (),
    tcp_step_ns: int = STEP_NS,
    as_arrays: bool = False,
    decoder: PayloadDecoder = WITHOUT_SCHEMAS,
) -> Iterator[Batches]:
    """Yield batches of tables, by table name, for all connections in `pieces` (rows of PIECES).

    Rows of counts are skipped.

    `keys` decrypt connections under TLS. `wanted` names the tables on request (`schemas.ON_REQUEST`) that are
    made; their rows come with the exchanges that they are about. ENDS is for callers who cannot wait for the
    table `connections`. `tcp_step_ns` is the length of a step of TCP_STEPS. With `as_arrays`, exchanges and
    partitions are arrays, from which figures are counted. `decoder` decodes keys and values of RECORDS.
    """
    processor = new_flow_processor(
        splits, np.array(highest_versions(), np.int64), keys, tokens=True, tcp_step_ns=tcp_step_ns
    )
    details = ConnectionDetails()
    for split_pieces in by_split(pieces):
        for batch in processor.feed(split_pieces):
            yield from exchange_tables(batch, processor, details, splits, wanted, as_arrays, decoder)
    for batch in processor.close():
        yield from exchange_tables(batch, processor, details, splits, wanted, as_arrays, decoder)
    yield {"connections": connection_rows(processor, details), "names": KNOWN_NAMES}
    yield from tcp_tables(processor, splits, wanted, as_arrays)


def tcp_tables(
    processor: FlowProcessor, splits: Sequence[Split], wanted: Collection[str], as_arrays: bool = False
) -> Iterator[Batches]:
    """Yield the tables about TCP that are wanted, of what is finished by now, in parts.

    Steps are arrays if `as_arrays`.
    """
    if not {"tcp_steps", "tcp_spans"} & set(wanted):
        return
    client = client_sides(array_of(processor.state.connections)[: len(processor.endpoints)])
    ends = end_rows(processor, np.arange(len(client)))
    if "tcp_spans" in wanted:
        yield {"tcp_spans": tcp_span_rows(processor.tcp, ends, client, splits)}
    if "tcp_steps" in wanted:
        for rows in tcp_step_batches(processor.tcp, ends, client, as_arrays):
            yield {"tcp_steps": rows}


def by_split(pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield batches of which each holds all pieces of one split, in the order of the splits."""
    waiting: list[pa.RecordBatch] = []
    for batch in pieces:
        split = batch["split"].to_numpy()
        rows_of_pieces = np.flatnonzero(batch["piece"].to_numpy() >= 0)
        edges = np.flatnonzero(np.diff(split[rows_of_pieces])) + 1
        for rows in np.split(rows_of_pieces, edges):
            if len(rows) == 0:
                continue
            part = batch.slice(rows[0], rows[-1] - rows[0] + 1)
            if len(part) != len(rows):
                part = part.filter(pa.array(part["piece"].to_numpy() >= 0))
            if waiting and waiting[0]["split"][0] != part["split"][0]:
                yield _joined(waiting)
                waiting = []
            waiting.append(part)
    if waiting:
        yield _joined(waiting)


def _joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def exchange_tables(
    batch: ExchangeBatch,
    processor: FlowProcessor,
    details: ConnectionDetails,
    splits: Sequence[Split],
    wanted: Collection[str],
    as_arrays: bool = False,
    decoder: PayloadDecoder = WITHOUT_SCHEMAS,
) -> Iterator[Batches]:
    """Yield batches of tables, by table name, for finished exchanges; arrays if `as_arrays`."""
    extra = {}
    if "ends" in wanted:
        # Rows of connections are few numbers, so they are found without sorting.
        extra["ends"] = end_rows(processor, np.flatnonzero(np.bincount(batch.exchanges["connection"])))
    tokens = batch.exchanges["status"] == SASL_TOKEN
    if tokens.any():  # between the exchanges around them, and no rows of any table
        for rows in np.split(batch.exchanges, np.flatnonzero(np.diff(tokens)) + 1):
            if rows["status"][0] == SASL_TOKEN:
                details.add_tokens(batch._replace(exchanges=rows))
            else:
                part = batch._replace(exchanges=rows)
                yield from exchange_tables(part, processor, details, splits, wanted, as_arrays, decoder)
        return
    is_old = is_kafka07(batch)
    if is_old.any():
        kafka07, batch = (batch._replace(exchanges=batch.exchanges[rows]) for rows in (is_old, ~is_old))
        exchanges, partitions, has_fault = kafka07_rows(kafka07, _identities(kafka07, processor), splits)
        details.add_faults(kafka07, has_fault)
        if as_arrays:
            exchanges, partitions = array_batch(exchanges, EXCHANGES), array_batch(partitions, PARTITIONS)
        yield {"exchanges": exchanges, "partitions": partitions, **extra}
    if len(batch.exchanges):
        for part in record_parts(batch) if "records" in wanted else (batch,):
            for columns in read_messages(part):
                tables = _current_rows(*columns, processor, details, splits, wanted, as_arrays, decoder)
                del columns  # 20 MB that nobody needs while figures are counted
                yield tables | extra


def _identities(batch: ExchangeBatch, processor: FlowProcessor) -> Int64s:
    return processor.identities[batch.exchanges["connection"]]


def _current_rows(
    batch: ExchangeBatch,
    request: MessageColumns,
    response: MessageColumns,
    processor: FlowProcessor,
    details: ConnectionDetails,
    splits: Sequence[Split],
    wanted: Collection[str],
    as_arrays: bool,
    decoder: PayloadDecoder,
) -> dict[str, pa.RecordBatch | ArrayBatch]:
    identities = _identities(batch, processor)
    ended = unfinished(batch, processor)
    exchanges, has_fault = exchange_rows(
        batch, request, response, identities, splits, details.log_ends, ended, as_arrays
    )
    details.add(batch, request, has_fault)
    of_error = exchanges.select(["error_code"])
    details.authentications.add(
        batch.exchanges,
        lambda rows: of_error.take(pa.array(rows)).column(0).to_pylist(),
        details.known("sasl_mechanism"),
    )
    return {
        "exchanges": exchanges,
        "partitions": partition_rows(batch, request, response, identities, as_arrays),
        "names": pa.concat_batches([named_topics(batch, side) for side in (request, response)]),
        "brokers": listening_nodes(batch, response),
        **{
            table: event_rows(table, batch, request, response, exchanges)
            for table in EVENT_SOURCES
            if table in wanted
        },
        **({"records": record_rows(batch, exchanges, decoder)} if "records" in wanted else {}),
        **{table: rows(batch, exchanges) for table, rows in SIDE_TABLES.items() if table in wanted},
    }


def unfinished(batch: ExchangeBatch, processor: FlowProcessor) -> dict[str, Bools]:
    """Return, by side, which exchanges of a batch have a message that was not sent in full."""
    return {side: _unfinished(batch, processor, side) for side in (REQUEST_SIDE, RESPONSE_SIDE)}


def _unfinished(batch: ExchangeBatch, processor: FlowProcessor, side: str) -> Bools:
    frames = batch.exchanges[side]
    early: Bools = (frames["start"] > 0) & (frames["stop"] < frames["frame_stop"])
    rows = np.flatnonzero(early)  # hardly any
    if not len(rows):
        return early
    of_connection = batch.exchanges["connection"][rows]
    connections = array_of(processor.state.connections)[of_connection]
    client = client_sides(connections)
    sender = client if side == REQUEST_SIDE else 1 - client
    directions = array_of(processor.state.directions)[2 * of_connection + sender]
    # Under TLS, records that were not decrypted may be missing.
    early[rows] = (
        (directions["lost_bytes"] == 0)
        & (directions["overfull_holes"] == 0)
        & (connections["overheld"] == 0)
        & ~np.isin(connections["protocol"], (TLS, TLS_PASSED))
    )
    return early
