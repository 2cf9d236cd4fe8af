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
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from kdissect.array_types import Int64s
from kdissect.capture.index.splits import Split
from kdissect.jit.rows import array_of
from kdissect.payload.payload_decoder import PayloadDecoder
from kdissect.protocol.schema.registry import highest_versions
from kdissect.streams.engine import ExchangeBatch
from kdissect.streams.flow_state import SASL_TOKEN
from kdissect.streams.processor import FlowProcessor
from kdissect.streams.tcp.tcp_tracker import STEP_NS
from kdissect.streams.tls.decrypt_stage import new_flow_processor
from kdissect.streams.tls.keylog import NO_KEYS, KeyLog
from kdissect.tables.array_batch import ArrayBatch, array_batch, lists_at
from kdissect.tables.connections import (
    ConnectionDetails,
    client_sides,
    connection_rows,
    end_rows,
)
from kdissect.tables.controller_requests import addressed_voter_rows, shutdown_request_rows
from kdissect.tables.engine_facts import EngineFacts, engine_facts, unfinished
from kdissect.tables.events import EVENT_SOURCES, event_rows
from kdissect.tables.exchanges import exchange_rows
from kdissect.tables.header_columns import CaptureFiles
from kdissect.tables.kafka07_rows import is_kafka07, kafka07_rows
from kdissect.tables.message_columns import CarriedMessages, MessageColumns, read_messages
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

Batches: TypeAlias = Mapping[str, pa.RecordBatch | ArrayBatch]  # by name of the table
CarriedSides: TypeAlias = tuple[CarriedMessages, CarriedMessages]  # requests and responses of a batch
BATCH_BYTES = 48 << 20
"""Payload from which one batch of exchanges comes at most, if that is of several splits.

A batch costs milliseconds of calls, and a split of 32 MB has few exchanges of large messages. Two tasks of
mixed traffic (7 KB an exchange) took 4.68 and 5.09 s of processor time with batches that end with their
split, 4.42 and 4.51 with these, and 4.27 and 4.28 with 64 MB, for which a task with little memory lacks room.
"""
WITHOUT_SCHEMAS = PayloadDecoder()


class Paired(NamedTuple):
    """Finished exchanges, what is known of their connections, and their messages if these were read."""

    batch: ExchangeBatch
    facts: EngineFacts
    messages: CarriedSides | None = None


SIDE_TABLES = {
    "replica_sets": replica_set_rows,
    "share_acknowledgements": share_acknowledgement_rows,
    "shutdown_requests": shutdown_request_rows,
    "addressed_voters": addressed_voter_rows,
}
"""Tables made from a batch and its rows of exchanges, beside the public ones."""


def dissect_batches(
    pieces: Iterable[pa.RecordBatch],
    splits: Sequence[Split],
    keys: KeyLog = NO_KEYS,
    wanted: Collection[str] = (),
    tcp_step_ns: int = STEP_NS,
    as_arrays: bool = False,
    decoder: PayloadDecoder = WITHOUT_SCHEMAS,
    reads_all: bool = True,
) -> Iterator[Batches]:
    """Yield batches of tables, by table name, for all connections in `pieces` (rows of PIECES).

    Rows of counts are skipped.

    `keys` decrypt connections under TLS. `wanted` names the tables on request (`schemas.ON_REQUEST`) that are
    made; their rows come with the exchanges that they are about. ENDS is for callers who cannot wait for the
    table `connections`. `tcp_step_ns` is the length of a step of TCP_STEPS. With `as_arrays`, exchanges and
    partitions are arrays, from which figures are counted. `decoder` decodes keys and values of RECORDS.
    `reads_all` is as for `new_table_processor`.
    """
    processor = new_table_processor(splits, keys, tcp_step_ns, reads_all=reads_all)
    maker = TableMaker(splits, wanted, as_arrays, decoder)
    yield from maker.exchanges(paired_batches(pieces, processor, wanted))
    yield from maker.connections(processor)


def new_table_processor(
    splits: Sequence[Split],
    keys: KeyLog,
    tcp_step_ns: int = STEP_NS,
    batch_bytes: int = BATCH_BYTES,
    reads_all: bool = True,
) -> FlowProcessor:
    """Return a processor without connections, whose exchanges become tables.

    Unless it `reads_all`, only headers of large records are there, and what figures want of the others.
    """
    return new_flow_processor(
        splits,
        np.array(highest_versions(), np.int64),
        keys,
        tokens=True,
        tcp_step_ns=tcp_step_ns,
        batch_bytes=batch_bytes,
        reads_all=reads_all,
    )


def paired_batches(
    pieces: Iterable[pa.RecordBatch], processor: FlowProcessor, wanted: Collection[str]
) -> Iterator[Paired]:
    """Yield the finished exchanges of all connections in `pieces`, and what is known of these, to the end."""
    for split_pieces in by_split(pieces):
        yield from with_facts(processor.feed(split_pieces), processor, wanted)
    yield from with_facts(processor.close(), processor, wanted)


def with_facts(
    batches: Iterable[ExchangeBatch], processor: FlowProcessor, wanted: Collection[str]
) -> Iterator[Paired]:
    """Yield batches with what is known of their connections when they are finished."""
    for batch in batches:
        yield Paired(batch, engine_facts(batch, processor, wanted))


def carried_parts(batch: ExchangeBatch) -> Iterator[tuple[ExchangeBatch, CarriedSides | None]]:
    """Yield parts of a batch with their messages, for another process that makes tables of them.

    That process reads the messages of a batch with tokens of SASL or with calls of Kafka 0.7, None here.
    """
    if (batch.exchanges["status"] == SASL_TOKEN).any() or is_kafka07(batch).any():
        yield batch, None
        return
    for part, request, response in read_messages(batch):
        yield part, (request.carried(), response.carried())


class TableMaker:
    """Tables from finished exchanges. `details` has what these told of their connections so far.

    The arguments are those of `dissect_batches`.
    """

    def __init__(
        self,
        splits: Sequence[Split],
        wanted: Collection[str] = (),
        as_arrays: bool = False,
        decoder: PayloadDecoder = WITHOUT_SCHEMAS,
    ) -> None:
        self.details = ConnectionDetails()
        self._splits, self._files, self._wanted = splits, CaptureFiles.of(splits), wanted
        self._as_arrays, self._decoder = as_arrays, decoder

    def exchanges(self, paired: Iterable[Paired]) -> Iterator[Batches]:
        """Yield batches of tables, by table name, for finished exchanges."""
        for batch, facts, messages in paired:
            extra = {"ends": self._as_wanted(facts.ends)} if facts.ends is not None else {}
            for tables in self._tables(batch, facts, messages):
                yield {**tables, **extra}

    def connections(self, processor: FlowProcessor, rows: Int64s | None = None) -> Iterator[Batches]:
        """Yield the table `connections`, of all or some `rows`, and the tables about TCP that are wanted.

        TCP is told of what is finished by now, in parts.
        """
        found = connection_rows(processor, self.details)
        yield {"connections": found if rows is None else found.take(pa.array(rows)), "names": KNOWN_NAMES}
        if not {"tcp_steps", "tcp_spans"} & set(self._wanted):
            return
        client = client_sides(array_of(processor.state.connections)[: len(processor.endpoints)])
        ends = end_rows(processor, np.arange(len(client)))
        if "tcp_spans" in self._wanted:
            yield {"tcp_spans": tcp_span_rows(processor.tcp, ends, client, self._splits)}
        if "tcp_steps" in self._wanted:
            for steps in tcp_step_batches(processor.tcp, ends, client, self._as_arrays):
                yield {"tcp_steps": steps}

    def _as_wanted(self, rows: ArrayBatch) -> pa.RecordBatch | ArrayBatch:
        return rows if self._as_arrays else rows.slice(0, rows.num_rows)

    def _tables(
        self, batch: ExchangeBatch, facts: EngineFacts, messages: CarriedSides | None
    ) -> Iterator[Batches]:
        if messages:
            request, response = map(MessageColumns.resumed, messages)
            yield self._current_tables(batch, request, response, facts)
            return
        tokens = batch.exchanges["status"] == SASL_TOKEN
        if not tokens.any():
            yield from self._tables_of_rows(batch, facts)
            return
        # Between the exchanges around them, and no rows of any table.
        for rows in np.split(batch.exchanges, np.flatnonzero(np.diff(tokens)) + 1):
            part = batch._replace(exchanges=rows)
            if rows["status"][0] == SASL_TOKEN:
                self.details.add_tokens(part)
            else:
                yield from self._tables_of_rows(part, facts)

    def _tables_of_rows(self, batch: ExchangeBatch, facts: EngineFacts) -> Iterator[Batches]:
        is_old = is_kafka07(batch)
        if is_old.any():
            kafka07, batch = (batch._replace(exchanges=batch.exchanges[rows]) for rows in (is_old, ~is_old))
            yield self._kafka07_tables(kafka07, facts)
        if len(batch.exchanges):
            for part in record_parts(batch) if "records" in self._wanted else (batch,):
                for columns in read_messages(part):
                    tables = self._current_tables(*columns, facts)
                    del columns  # 20 MB that nobody needs while figures are counted
                    yield tables

    def _kafka07_tables(self, batch: ExchangeBatch, facts: EngineFacts) -> Batches:
        identities = facts.identities[batch.exchanges["connection"]]
        exchanges, partitions, has_fault = kafka07_rows(batch, identities, self._files)
        self.details.add_faults(batch, has_fault)
        if self._as_arrays:
            exchanges, partitions = array_batch(exchanges, EXCHANGES), array_batch(partitions, PARTITIONS)
        return {"exchanges": exchanges, "partitions": partitions}

    def _current_tables(
        self, batch: ExchangeBatch, request: MessageColumns, response: MessageColumns, facts: EngineFacts
    ) -> Batches:
        details, wanted = self.details, self._wanted
        identities = facts.identities[batch.exchanges["connection"]]
        ended = unfinished(batch.exchanges, facts)
        exchanges, has_fault = exchange_rows(
            batch, request, response, identities, self._files, details.log_ends, ended, self._as_arrays
        )
        details.add(batch, request, has_fault)
        details.authentications.add(
            batch.exchanges,
            lambda rows: lists_at(exchanges, ["error_code"], rows)[0],
            details.known("sasl_mechanism"),
        )
        records = record_rows(batch, exchanges, self._decoder) if "records" in wanted else None
        return {
            "exchanges": exchanges,
            "partitions": partition_rows(batch, request, response, identities, self._as_arrays),
            "names": pa.concat_batches([named_topics(batch, side) for side in (request, response)]),
            "brokers": listening_nodes(batch, response),
            **{
                table: event_rows(table, batch, request, response, exchanges)
                for table in EVENT_SOURCES
                if table in wanted
            },
            **({"records": records} if records is not None else {}),
            **{table: rows(batch, exchanges) for table, rows in SIDE_TABLES.items() if table in wanted},
        }


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
