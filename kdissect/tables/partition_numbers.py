"""Numbers of partition rows: keys, offsets, records and producers, from the request's row and the response's.

In come two tables of what messages say of partitions, and which rows of both make one row of the result. A
compiled loop writes all columns of a row at once. With NumPy, and loops for one column each, 49 passes went
over the rows, which took 40 ns an exchange more. It is called for many rows. `plain_numbers` is the plain
way, for few.
"""

from functools import cache
from typing import NamedTuple

import numpy as np

from kdissect.array_types import Bools, Bytes, Int64s
from kdissect.jit.decorators import jit_flat, jit_inline
from kdissect.jit.many_rows import are_many, read_only
from kdissect.jit.rows import Records, RowTable, new_table
from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.columnar.batch_reader import Integers
from kdissect.protocol.columnar.registers import ROW_SLOTS, ROW_WIDTH, SUMMARY_AT, SUMMARY_WIDTH
from kdissect.protocol.columnar.vm_state import OWNER_PRESENT, OWNER_WIDTH
from kdissect.protocol.records.batch_summary import (
    BASE_OFFSET,
    BASE_SEQUENCE,
    BATCHES,
    CODEC,
    MAGIC,
    PRODUCER_EPOCH,
    PRODUCER_ID,
    RECORDS,
)
from kdissect.streams.flow_state import REQUEST_SIDE, RESPONSE_SIDE, ExchangeRow
from kdissect.tables.array_batch import number_column
from kdissect.tables.coded_text import NumberColumn
from kdissect.tables.column import INT16, INT32, INT64
from kdissect.tables.exchange_schema import PARTITION_COLUMNS
from kdissect.tables.header_columns import PADDING
from kdissect.tables.message_columns import MessageColumns
from kdissect.tables.partition_keys import PARTITION, TOPIC, TOPIC_ID, TOPIC_LENGTH, partition_keys

BATCH_MAGIC = 2
ALL_OF_FIRST, ONE_OF = 16, 64
INT64_LOWEST = -(1 << 63)

NUMBERS = {
    "connection": INT64,
    "ordinal": INT64,
    "api_key": INT16,
    "partition": INT32,
    "error_code": INT16,
    "records": INT64,
    "batches": INT64,
    "record_bytes": INT64,
    "offset": INT64,
    "high_watermark": INT64,
    "log_start_offset": INT64,
    "producer_id": INT64,
    "producer_epoch": INT16,
    "base_sequence": INT32,
}
"""The columns of numbers, with their types, in the order in which the loop writes them."""

(
    CONNECTION_AT,
    ORDINAL_AT,
    API_KEY_AT,
    PARTITION_AT,
    ERROR_CODE_AT,
    RECORDS_AT,
    BATCHES_AT,
    RECORD_BYTES_AT,
    OFFSET_AT,
    HIGH_WATERMARK_AT,
    LOG_START_OFFSET_AT,
    PRODUCER_ID_AT,
    PRODUCER_EPOCH_AT,
    BASE_SEQUENCE_AT,
    TOPIC_AT,
    TOPIC_LENGTH_AT,
    TOPIC_ID_AT,
    CODEC_AT,
    TRIED_AT,
    WRITTEN,
) = range(20)

ERROR_SLOT, OFFSET_SLOT = ROW_SLOTS["error_code"], ROW_SLOTS["offset"]
HIGH_WATERMARK_SLOT, LOG_START_SLOT = ROW_SLOTS["high_watermark"], ROW_SLOTS["log_start_offset"]
PRODUCER_ID_SLOT, PRODUCER_EPOCH_SLOT = ROW_SLOTS["producer_id"], ROW_SLOTS["producer_epoch"]
RECORD_SET_SLOT = ROW_SLOTS["record_set"]


class PartitionSide:
    """The partition rows of requests or responses: their keys, and the exchange of each."""

    def __init__(self, arena: Bytes, columns: MessageColumns) -> None:
        self.table, self.records = columns.columns.partitions, columns.columns.records
        self.rows = columns.columns.rows
        self.keys, self.exchange = partition_keys(arena, columns)

    @property
    def arrays(self) -> tuple[Int64s, Int64s, Int64s]:
        """Arrays for the loop: keys, rows, and summaries of records."""
        return self.keys, self.rows, self.records.summaries

    def record_bytes(self, rows: Int64s) -> Integers:
        """Return the size of the records at some rows, and where there are any."""
        span = self.table.spans_at("record_set", rows)
        return Integers(span.length, span.start >= 0)


class RowPairs(NamedTuple):
    """The rows of requests and of responses (-1: none) that make a row of the result, and its exchange."""

    request: Int64s
    response: Int64s
    exchange: Int64s


class PartitionNumbers(NamedTuple):
    """Columns of numbers, and others by row; -1 stands for none.

    `codec` is a number of CODEC_NAMES; `tried` has the rows of which a sample is compressed.
    """

    columns: dict[str, NumberColumn]
    topic: Int64s  # where its name starts in the arena
    topic_length: Int64s
    topic_id: Int64s
    codec: Int64s
    tried: Int64s


def partition_numbers(
    exchanges: Records, identities: Int64s, requests: PartitionSide, responses: PartitionSide, pairs: RowPairs
) -> PartitionNumbers:
    """Return the numbers of partition rows; `identities` has the connection of each exchange."""
    count = len(pairs.exchange)
    if not are_many(count):
        return plain_numbers(exchanges, identities, requests, responses, pairs)
    # Columns that lie a power of two apart would push each other out of the processor's cache.
    shape = WRITTEN, count + PADDING
    written, present = np.empty(shape, np.int64), np.empty(shape, np.bool_)
    fill_numbers(
        exchanges,
        read_only(identities),
        *requests.arrays,
        *responses.arrays,
        *map(read_only, pairs),
        written,
        present,
    )
    columns = {
        name: NumberColumn(written[place, :count], present[place, :count], kind)
        for place, (name, kind) in enumerate(NUMBERS.items())
    }
    return PartitionNumbers(
        columns,
        written[TOPIC_AT, :count],
        written[TOPIC_LENGTH_AT, :count],
        written[TOPIC_ID_AT, :count],
        written[CODEC_AT, :count],
        np.flatnonzero(present[TRIED_AT, :count]),
    )


def plain_numbers(
    exchanges: Records, identities: Int64s, requests: PartitionSide, responses: PartitionSide, pairs: RowPairs
) -> PartitionNumbers:
    """Return what `partition_numbers` does, column by column."""

    @cache
    def key(column: int) -> Int64s:
        return _either(requests.keys[:, column], pairs.request, responses.keys[:, column], pairs.response, 0)

    @cache
    def record(name: str) -> Int64s:
        rows = np.where(asked.present, pairs.request, -1)
        return _either(requests.records[name], rows, responses.records[name], pairs.response, INT64_LOWEST)

    def producer(name: str) -> tuple[Int64s, Bools]:
        values, present = _first_of(name, *sources[REQUEST_SIDE])
        return np.where(in_batch, record(name), values), in_batch | present

    of_requests, of_responses = (requests, pairs.request), (responses, pairs.response)
    sources = {REQUEST_SIDE: (of_requests, of_responses), RESPONSE_SIDE: (of_responses, of_requests)}
    asked, answered = requests.record_bytes(pairs.request), responses.record_bytes(pairs.response)
    has_records = asked.present | answered.present
    in_batch = has_records & (record("magic") == BATCH_MAGIC)
    every_row = np.ones(len(pairs.exchange), bool)
    ordinal, api_key = (exchanges[name][pairs.exchange] for name in ("ordinal", "api_key"))
    offset, has_offset = _first_of("offset", *sources[REQUEST_SIDE])
    # A fetch session names only what changed since its last request (KIP-227). A partition that it does not
    # name, and that returns records, is fetched from where it was before: at or behind their first offset.
    again = ~has_offset & in_batch & (api_key == ApiKey.FETCH)
    values = {
        "connection": (identities[pairs.exchange], every_row),
        "ordinal": (ordinal, every_row),
        "api_key": (api_key, every_row),
        "partition": (key(PARTITION), key(PARTITION) >= 0),
        "error_code": _first_of("error_code", of_responses),
        "records": (record("records"), has_records & (record("records") >= 0)),
        "batches": (record("batches"), has_records),
        "record_bytes": (np.where(asked.present, asked.values, answered.values), has_records),
        "offset": (np.where(again, record("base_offset"), offset), has_offset | again),
        "producer_id": producer("producer_id"),
        "producer_epoch": producer("producer_epoch"),
        "base_sequence": (record("base_sequence"), in_batch),
    } | {
        column.name: _first_of(
            column.source.column, *sources[column.source.side][: 1 if column.source.alone else 2]
        )
        for column in PARTITION_COLUMNS
        if column.source is not None
    }
    plain = asked.present & in_batch & (record("codec") == 0) & (record("batches") > 0)
    return PartitionNumbers(
        {name: number_column(*values[name], kind) for name, kind in NUMBERS.items()},
        key(TOPIC),
        key(TOPIC_LENGTH),
        key(TOPIC_ID),
        np.where(has_records, record("codec"), -1),
        np.flatnonzero(plain & is_tried(ordinal)),
    )


def is_tried(ordinal: Int64s) -> Bools:
    """Return which exchanges are tried, by their ordinal on the connection."""
    tried: Bools = (ordinal < ALL_OF_FIRST) | (ordinal % ONE_OF == 0)
    return tried


def _first_of(name: str, *sources: tuple[PartitionSide, Int64s]) -> Integers:
    """Return a column from the first source that has it, row by row, and where any has it."""
    count = len(sources[0][1])
    taken = Integers(np.zeros(count, np.int64), np.zeros(count, np.bool_))
    for side, rows in sources:
        side.table.fill_integers(name, rows, *taken)
    return taken


def _either(one: Int64s, one_rows: Int64s, other: Int64s, other_rows: Int64s, least: int) -> Int64s:
    """Return numbers of one table, or of another one where the first has no row, or less than `least`."""
    taken = np.full(len(one_rows), -1, np.int64)
    places = np.flatnonzero(other_rows >= 0)
    taken[places] = other[other_rows[places]]
    places = np.flatnonzero(one_rows >= 0)
    mine = one[one_rows[places]]
    taken[places] = np.where(mine >= least, mine, taken[places])
    return taken


@jit_inline
def _put(out: Int64s, present: Bools, place: int, row: int, value: int, is_known: bool) -> None:
    out[place, row] = value if is_known else 0
    present[place, row] = is_known


@jit_inline
def _has(rows: Int64s, row: int, slot: int) -> bool:
    return bool(row >= 0 and rows[row, OWNER_PRESENT] >> slot & 1)


@jit_inline
def _put_own(out: Int64s, present: Bools, place: int, row: int, slot: int, rows: Int64s, at: int) -> None:
    """Put a register of row `at` of a table."""
    is_known = _has(rows, at, slot)
    _put(out, present, place, row, rows[at, OWNER_WIDTH + slot] if is_known else 0, is_known)


@jit_inline
def _put_first(
    out: Int64s,
    present: Bools,
    place: int,
    row: int,
    slot: int,
    rows: Int64s,
    one: int,
    rows_too: Int64s,
    other: int,
) -> None:
    """Put a register of row `one` of a table, or else of row `other` of another one."""
    if _has(rows, one, slot):
        _put(out, present, place, row, rows[one, OWNER_WIDTH + slot], True)
    elif _has(rows_too, other, slot):
        _put(out, present, place, row, rows_too[other, OWNER_WIDTH + slot], True)
    else:
        _put(out, present, place, row, 0, False)


@jit_inline
def _key(keys: Int64s, one: int, keys_too: Int64s, other: int, column: int) -> int:
    value = np.int64(-1)
    if one >= 0:
        value = keys[one, column]
    if value < 0 and other >= 0:
        value = keys_too[other, column]
    return value  # type: ignore[return-value]


@jit_flat
def fill_numbers(
    exchanges: RowTable[ExchangeRow],
    identities: Int64s,
    asked_keys: Int64s,
    asked: Int64s,
    asked_summaries: Int64s,
    answered_keys: Int64s,
    answered: Int64s,
    answered_summaries: Int64s,
    request_rows: Int64s,
    response_rows: Int64s,
    exchange_of: Int64s,
    out: Int64s,
    present: Bools,
) -> None:
    """Fill the columns of NUMBERS, then those of PartitionNumbers; a number that is not present is 0.

    `asked` and `answered` are rows as a walk writes them, with summaries of their records.
    """
    for row in range(len(exchange_of)):
        one, other, exchange = request_rows[row], response_rows[row], exchange_of[row]
        ordinal, api_key = exchanges[exchange].ordinal, exchanges[exchange].api_key
        _put(out, present, CONNECTION_AT, row, identities[exchange], True)
        _put(out, present, ORDINAL_AT, row, ordinal, True)
        _put(out, present, API_KEY_AT, row, api_key, True)
        partition = _key(asked_keys, one, answered_keys, other, PARTITION)
        _put(out, present, PARTITION_AT, row, partition, partition >= 0)
        _put_own(out, present, ERROR_CODE_AT, row, ERROR_SLOT, answered, other)
        out[TOPIC_AT, row] = _key(asked_keys, one, answered_keys, other, TOPIC)
        out[TOPIC_LENGTH_AT, row] = _key(asked_keys, one, answered_keys, other, TOPIC_LENGTH)
        out[TOPIC_ID_AT, row] = _key(asked_keys, one, answered_keys, other, TOPIC_ID)
        is_written = _has(asked, one, RECORD_SET_SLOT)
        if is_written:
            _put_records(out, present, row, asked, one, asked_summaries)
        elif _has(answered, other, RECORD_SET_SLOT):
            _put_records(out, present, row, answered, other, answered_summaries)
        else:
            _put_no_records(out, present, row)
        in_batch = present[BASE_SEQUENCE_AT, row]
        is_plain = is_written and in_batch and out[CODEC_AT, row] == 0 and out[BATCHES_AT, row] > 0
        present[TRIED_AT, row] = is_plain and (ordinal < ALL_OF_FIRST or ordinal % ONE_OF == 0)
        sides = (asked, one, answered, other)
        if not in_batch:
            _put_first(out, present, PRODUCER_ID_AT, row, PRODUCER_ID_SLOT, *sides)
            _put_first(out, present, PRODUCER_EPOCH_AT, row, PRODUCER_EPOCH_SLOT, *sides)
        if _has(asked, one, OFFSET_SLOT) or _has(answered, other, OFFSET_SLOT):
            _put_first(out, present, OFFSET_AT, row, OFFSET_SLOT, *sides)
        elif not (in_batch and api_key == ApiKey.FETCH):  # else it is that of the records
            _put(out, present, OFFSET_AT, row, 0, False)
        _put_own(out, present, HIGH_WATERMARK_AT, row, HIGH_WATERMARK_SLOT, answered, other)
        _put_first(out, present, LOG_START_OFFSET_AT, row, LOG_START_SLOT, answered, other, asked, one)


@jit_inline
def _put_records(out: Int64s, present: Bools, row: int, rows: Int64s, at: int, summaries: Int64s) -> None:
    """Put what the summary of the records says that row `at` of a table has."""
    summary = rows[at, OWNER_WIDTH + SUMMARY_AT]
    records = summaries[summary, RECORDS]
    _put(out, present, RECORDS_AT, row, records, records >= 0)
    _put(out, present, BATCHES_AT, row, summaries[summary, BATCHES], True)
    _put(out, present, RECORD_BYTES_AT, row, rows[at, OWNER_WIDTH + RECORD_SET_SLOT + 1], True)
    out[CODEC_AT, row] = summaries[summary, CODEC]
    in_batch = summaries[summary, MAGIC] == BATCH_MAGIC
    _put(out, present, BASE_SEQUENCE_AT, row, summaries[summary, BASE_SEQUENCE], in_batch)
    if in_batch:
        _put(out, present, PRODUCER_ID_AT, row, summaries[summary, PRODUCER_ID], True)
        _put(out, present, PRODUCER_EPOCH_AT, row, summaries[summary, PRODUCER_EPOCH], True)
        _put(out, present, OFFSET_AT, row, summaries[summary, BASE_OFFSET], True)


@jit_inline
def _put_no_records(out: Int64s, present: Bools, row: int) -> None:
    _put(out, present, RECORDS_AT, row, 0, False)
    _put(out, present, BATCHES_AT, row, 0, False)
    _put(out, present, RECORD_BYTES_AT, row, 0, False)
    _put(out, present, BASE_SEQUENCE_AT, row, 0, False)
    out[CODEC_AT, row] = -1


def call_all() -> None:
    """Call the loop, so that it is compiled and kept."""
    exchanges: RowTable[ExchangeRow] = new_table(ExchangeRow, 1)
    none, keys = read_only(np.zeros(1, np.int64)), np.zeros((1, 4), np.int64)
    table = keys, np.zeros((1, OWNER_WIDTH + ROW_WIDTH), np.int64), np.zeros((1, SUMMARY_WIDTH), np.int64)
    out, present = np.zeros((WRITTEN, 1), np.int64), np.zeros((WRITTEN, 1), bool)
    fill_numbers(exchanges, none, *table, *table, none, none, none, out, present)
