"""Rows of the table `partitions`: each topic-partition that an exchange names, once.

Request and response both name them: a Produce request has the records, its response the error and the offset.
Rows of both that mean the same partition become one. A topic that a request names without partitions has no
row of its own if the response has rows.

Samples of uncompressed records are compressed with LZ4, the quickest codec of Kafka, to know what
compression would save. The first exchanges of each connection are tried, and then one of many. Their
ordinal decides, so the choice does not depend on how the capture was split. For each partition that such a
Produce request writes, the records of the first batches are compressed, up to a bound, which costs about as
much as reading them did. Other codecs mostly save more than LZ4.
"""

from collections.abc import Callable
from functools import cache

import numpy as np
import pyarrow as pa
from cramjam import lz4

from kdissect.array_types import Bools, Bytes, Int64s
from kdissect.jit.decorators import jit_flat, jit_inner, prefetch
from kdissect.jit.many_rows import are_many, read_only
from kdissect.jit.same_bytes import same_bytes
from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.columnar.batch_reader import Integers
from kdissect.protocol.columnar.register_loops import take_either
from kdissect.protocol.records.batches import CODEC_NAMES, HEADER_BYTES
from kdissect.streams.engine import ExchangeBatch
from kdissect.streams.flow_state import REQUEST_SIDE, RESPONSE_SIDE
from kdissect.tables.array_batch import ArrayBatch, ArrayColumn, number_column
from kdissect.tables.coded_columns import coded_names, coded_spans, coded_uuids, table_batch
from kdissect.tables.coded_text import NumberColumn
from kdissect.tables.exchange_schema import PARTITION_COLUMNS
from kdissect.tables.exchanges import error_names
from kdissect.tables.message_columns import MessageColumns
from kdissect.tables.partition_keys import (
    PARTITION,
    TOPIC,
    TOPIC_ID,
    TOPIC_LENGTH,
    hash_key,
    partition_keys,
)
from kdissect.tables.schemas import PARTITIONS

BATCH_MAGIC = 2
SMALLEST_TABLE = 16
FETCHED_AHEAD = 8  # names of topics, which lie apart
INT64_LOWEST = -(1 << 63)


@jit_inner
def _same(arena: Bytes, keys: Int64s, one: int, others: Int64s, other: int) -> bool:
    """Return whether row `one` of keys and row `other` of others name the same partition (or topic)."""
    if keys[one, PARTITION] != others[other, PARTITION]:
        return False
    if keys[one, TOPIC] >= 0 and others[other, TOPIC] >= 0:
        length = keys[one, TOPIC_LENGTH]
        return length == others[other, TOPIC_LENGTH] and same_bytes(
            arena, keys[one, TOPIC], arena, others[other, TOPIC], length
        )
    if keys[one, TOPIC_ID] >= 0 and others[other, TOPIC_ID] >= 0:
        return same_bytes(arena, keys[one, TOPIC_ID], arena, others[other, TOPIC_ID], 16)
    return False


def partners(
    arena: Bytes, request_keys: Int64s, request_of: Int64s, response_keys: Int64s, response_of: Int64s
) -> Int64s:
    """Return the request row of each response row, -1 without one. Each request row occurs at most once.

    Keys have the columns of `partition_keys`. The others have exchange numbers, ascending.
    """
    partner = np.full(len(response_keys), -1, np.int64)
    # A power of two, and twice as many slots as rows. The loop makes no arrays of its own, so it can be flat:
    # 92 ns an exchange became 53.
    slots = max(SMALLEST_TABLE, 1 << max(0, 2 * len(request_keys) - 1).bit_length())
    taken, table = np.zeros(len(request_keys), np.bool_), np.empty(slots, np.int64)
    match_rows(arena, request_keys, request_of, response_keys, response_of, partner, taken, table)
    return partner


@jit_inner
def _fetch_name(arena: Bytes, keys: Int64s, row: int) -> None:
    """Have the processor fetch the name or id of the topic of a row that is needed soon, if it exists."""
    if row < len(keys):
        prefetch(arena, max(keys[row, TOPIC], keys[row, TOPIC_ID]))


@jit_flat
def match_rows(
    arena: Bytes,
    request_keys: Int64s,
    request_of: Int64s,
    response_keys: Int64s,
    response_of: Int64s,
    partner: Int64s,
    taken: Bools,
    table: Int64s,
) -> None:
    """Fill `partner` as `partners` returns it.

    `taken` has one False for each request row. `table` has room for a hash table of one exchange's rows.
    """
    first, row = 0, 0
    while row < len(response_keys):
        exchange = response_of[row]
        while first < len(request_keys) and request_of[first] < exchange:
            first += 1
        stop = first
        while stop < len(request_keys) and request_of[stop] == exchange:
            stop += 1
        built, following = False, first
        while row < len(response_keys) and response_of[row] == exchange:
            partner[row] = -1
            _fetch_name(arena, response_keys, row + FETCHED_AHEAD)
            _fetch_name(arena, request_keys, first + FETCHED_AHEAD)
            if (
                following < stop
                and not taken[following]
                and _same(arena, response_keys, row, request_keys, following)
            ):
                partner[row] = following
            elif stop > first:
                if not built:
                    size = SMALLEST_TABLE
                    while size < 2 * (stop - first):
                        size *= 2
                    for slot in range(size):
                        table[slot] = -1
                    for candidate in range(first, stop):
                        slot = hash_key(arena, request_keys, candidate) & (size - 1)
                        # Equal keys are entered once: hostile repetition must not make long probe chains.
                        while table[slot] >= 0 and not _same(
                            arena, request_keys, candidate, request_keys, table[slot]
                        ):
                            slot = (slot + 1) & (size - 1)
                        if table[slot] < 0:
                            table[slot] = candidate
                    built = True
                slot = hash_key(arena, response_keys, row) & (size - 1)
                while table[slot] >= 0 and not _same(arena, response_keys, row, request_keys, table[slot]):
                    slot = (slot + 1) & (size - 1)
                if table[slot] >= 0 and not taken[table[slot]]:
                    partner[row] = table[slot]
            if partner[row] >= 0:
                taken[partner[row]] = True
                following = partner[row] + 1
            row += 1
        first = stop


class _Rows:
    """The partition rows of requests or responses: their keys, and the exchange of each."""

    def __init__(self, columns: MessageColumns) -> None:
        self.columns = columns
        self.keys, self.exchange = partition_keys(columns)

    def records(self, name: str) -> Int64s:
        """Return a column of the summary of the records, -1 in rows without records."""
        return self.columns.columns.records[name]

    def record_bytes(self, rows: Int64s) -> tuple[Int64s, Bools]:
        """Return the size of the records at some rows, and where there are any."""
        span = self.columns.columns.partitions.spans_at("record_set", rows)
        return span.length, span.start >= 0


def _offset(
    batch: ExchangeBatch,
    exchange: Int64s,
    sides: "tuple[tuple[_Rows, Int64s], tuple[_Rows, Int64s]]",
    in_batch: Bools,
    record: Callable[[str], Int64s],
) -> tuple[Int64s, Bools]:
    """Return offsets, and where they are present.

    A fetch session names only what changed since its last request (KIP-227). A partition that it does not
    name, and that returns records, is fetched from where it was before: at or behind their first offset.
    """
    values, present = _first_of("offset", *sides)
    again = ~present & in_batch & (batch.exchanges["api_key"][exchange] == ApiKey.FETCH)
    return np.where(again, record("base_offset"), values), present | again


def _sample_columns(
    batch: ExchangeBatch, requests: _Rows, request_rows: Int64s, exchange: Int64s, plain: Bools
) -> list[NumberColumn]:
    """Return the sizes of samples of uncompressed records before and after LZ4; null without a sample."""
    rows = np.flatnonzero(plain & is_tried(batch.exchanges["ordinal"][exchange]))
    span = requests.columns.columns.partitions.spans("record_set")
    start = _take(span.start, request_rows[rows])
    captured_stop = batch.exchanges["request"]["stop"][
        exchange[rows]
    ]  # of a frame that was cut off less is there
    sizes = compressed(
        batch.arena, start, np.minimum(start + _take(span.length, request_rows[rows]), captured_stop)
    )
    columns = []
    for values in sizes:
        spread = np.zeros(len(request_rows), np.int64)
        spread[rows] = values
        columns.append(number_column(spread, spread > 0, pa.int64()))
    return columns


def _take(values: np.ndarray, rows: Int64s) -> np.ndarray:
    return values[np.maximum(rows, 0)] if len(values) else np.zeros(len(rows), values.dtype)


def partition_rows(
    batch: ExchangeBatch,
    request: MessageColumns,
    response: MessageColumns,
    identities: Int64s,
    as_arrays: bool = False,
) -> pa.RecordBatch | ArrayBatch:
    """Return the rows of a batch, sorted by exchange; rows that only the request has come first.

    Rows are arrays if `as_arrays`.
    """
    requests, responses = _Rows(request), _Rows(response)
    partner = partners(batch.arena, requests.keys, requests.exchange, responses.keys, responses.exchange)
    alone = np.ones(len(requests.keys), bool)
    alone[partner[partner >= 0]] = False
    # A bare topic in the request says nothing once the response has rows of its own.
    has_rows = np.zeros(len(batch.exchanges), bool)
    has_rows[responses.exchange] = True
    answered = has_rows[requests.exchange]
    alone &= ~(answered & (requests.keys[:, PARTITION] < 0))
    request_rows = np.concatenate([np.flatnonzero(alone), partner])
    response_rows = np.concatenate([np.full(int(alone.sum()), -1, np.int64), np.arange(len(partner))])
    exchange = np.concatenate([requests.exchange[alone], responses.exchange])
    order = np.argsort(exchange, kind="stable")
    columns = _columns(
        batch, identities, requests, responses, request_rows[order], response_rows[order], exchange[order]
    )
    return table_batch(columns, PARTITIONS, as_arrays)


def _first_of(name: str, *sources: tuple[_Rows, Int64s]) -> Integers:
    """Return a column from the first source that has it, row by row, and where any has it."""
    count = len(sources[0][1])
    taken = Integers(np.zeros(count, np.int64), np.zeros(count, np.bool_))
    for table, rows in sources:
        table.columns.columns.partitions.fill_integers(name, rows, *taken)
    return taken


def _either(one: Int64s, one_rows: Int64s, other: Int64s, other_rows: Int64s, least: int) -> Int64s:
    """Return numbers of two tables as `take_either` does."""
    taken = np.full(len(one_rows), -1, np.int64)
    if are_many(len(taken)) and len(one) and len(other):
        take_either(one, read_only(one_rows), other, read_only(other_rows), least, taken)
        return taken
    places = np.flatnonzero(other_rows >= 0)
    taken[places] = other[other_rows[places]]
    places = np.flatnonzero(one_rows >= 0)
    mine = one[one_rows[places]]
    taken[places] = np.where(mine >= least, mine, taken[places])
    return taken


def _records_of(
    requests: _Rows, responses: _Rows, request_rows: Int64s, response_rows: Int64s
) -> Callable[[str], Int64s]:
    """Return a function for columns of records: of the request's row, or else of the response's."""

    @cache
    def column(name: str) -> Int64s:
        return _either(
            requests.records(name), request_rows, responses.records(name), response_rows, INT64_LOWEST
        )

    return column


def _columns(
    batch: ExchangeBatch,
    identities: Int64s,
    requests: _Rows,
    responses: _Rows,
    request_rows: Int64s,
    response_rows: Int64s,
    exchange: Int64s,
) -> dict[str, ArrayColumn]:
    @cache
    def key(column: int) -> Int64s:
        return _either(requests.keys[:, column], request_rows, responses.keys[:, column], response_rows, 0)

    def producer(name: str, kind: pa.DataType) -> NumberColumn:
        values, present = _first_of(name, *sources[REQUEST_SIDE])
        return number_column(np.where(in_batch, record(name), values), in_batch | present, kind)

    of_requests, of_responses = (requests, request_rows), (responses, response_rows)
    sources = {REQUEST_SIDE: (of_requests, of_responses), RESPONSE_SIDE: (of_responses, of_requests)}
    error, has_error = _first_of("error_code", of_responses)
    request_size, response_size = requests.record_bytes(request_rows), responses.record_bytes(response_rows)
    size, has_records = (
        np.where(request_size[1], request_size[0], response_size[0]),
        request_size[1] | response_size[1],
    )
    record = _records_of(requests, responses, np.where(request_size[1], request_rows, -1), response_rows)
    in_batch = has_records & (record("magic") == BATCH_MAGIC)
    plain = request_size[1] & in_batch & (record("codec") == 0) & (record("batches") > 0)
    all_rows = np.ones(len(exchange), bool)
    sampled, sampled_lz4 = _sample_columns(batch, requests, request_rows, exchange, plain)
    columns: dict[str, ArrayColumn] = {
        "connection": NumberColumn(identities[exchange], all_rows, pa.int64()),
        "ordinal": NumberColumn(batch.exchanges["ordinal"][exchange], all_rows, pa.int64()),
        "api_key": NumberColumn(batch.exchanges["api_key"][exchange], all_rows, pa.int16()),
        "topic": coded_spans(batch.arena, key(TOPIC), key(TOPIC_LENGTH)),
        "topic_id": coded_uuids(batch.arena, key(TOPIC_ID)),
        "partition": number_column(key(PARTITION), key(PARTITION) >= 0, pa.int32()),
        "error_code": NumberColumn(error, has_error, pa.int16()),
        "error_name": error_names(error, has_error),
        "records": number_column(record("records"), has_records & (record("records") >= 0), pa.int64()),
        "batches": number_column(record("batches"), has_records, pa.int64()),
        "record_bytes": number_column(size, has_records, pa.int64()),
        "codec": coded_names(CODEC_NAMES, record("codec"), has_records),
        "offset": number_column(
            *_offset(batch, exchange, sources[REQUEST_SIDE], in_batch, record), pa.int64()
        ),
        "producer_id": producer("producer_id", pa.int64()),
        "producer_epoch": producer("producer_epoch", pa.int16()),
        "base_sequence": number_column(record("base_sequence"), in_batch, pa.int32()),
        "sampled_bytes": sampled,
        "sampled_lz4_bytes": sampled_lz4,
    }
    return columns | {
        column.name: NumberColumn(*_first_of(column.source.column, *sources[column.source.side]), column.type)
        for column in PARTITION_COLUMNS
        if column.source is not None
    }


ALL_OF_FIRST, ONE_OF = 16, 64
SAMPLE_BYTES = 16 << 10
_ROOM = lz4.compress_block_bound(bytes(SAMPLE_BYTES))


def is_tried(ordinal: Int64s) -> Bools:
    """Return which exchanges are tried, by their ordinal on the connection."""
    tried: Bools = (ordinal < ALL_OF_FIRST) | (ordinal % ONE_OF == 0)
    return tried


def compressed(arena: Bytes, start: Int64s, stop: Int64s) -> tuple[Int64s, Int64s]:
    """Return for record sets arena[start:stop] how many bytes were tried, and how many LZ4 made of them.

    The header of the first batch is left out, since Kafka does not compress it. Both are 0 for a set that has
    nothing else. LZ4 writes blocks, without a frame of a few bytes, and all into the same memory: a sample of
    80 bytes takes 0.6 µs, and 1.3 with memory of its own by Arrow's codec.
    """
    tried, made = np.zeros(len(start), np.int64), np.zeros(len(start), np.int64)
    begin = start + HEADER_BYTES
    end = np.minimum(stop, begin + SAMPLE_BYTES)
    rows = np.flatnonzero(end > begin)
    data, room = arena.data, bytearray(_ROOM)
    sizes = [
        lz4.compress_block_into(data[first:last], room, store_size=False)
        for first, last in zip(begin[rows].tolist(), end[rows].tolist(), strict=True)
    ]
    tried[rows], made[rows] = (end - begin)[rows], sizes
    return tried, made
