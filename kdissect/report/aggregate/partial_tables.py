"""Tables of a partial report: small Arrow tables that define how two of their rows become one.

Each table has key columns. Every other column is added up, or keeps its lowest or highest value, or is taken
from the row that comes first in the order that the table defines. All four are associative and commutative
and work on integers, so a report is the same for any number of tasks, any batch size and any order of
arrival.

Rows are made and added up as arrays, with codes in place of texts: they become a table of Arrow when a task
has added up all of its rows. As tables of Arrow in between they took a fifth of the time for figures.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from kdissect.array_types import Bools, Int64s
from kdissect.report.aggregate.column_rows import AnyColumn, ColumnRows, plain_column, take_rows
from kdissect.report.aggregate.grouping import (
    Codes,
    RowGroups,
    TableColumns,
    encode,
    encode_numbers,
    first_rows,
    group_rows,
    highest_by_group,
    lowest_by_group,
    one_group,
    sum_by_group,
    true_mask,
)
from kdissect.tables.array_batch import ArrayBatch, ArrayColumn, LateColumns, arrow_column, give_rows
from kdissect.tables.coded_text import CODE, CodedText, NumberColumn, code_text, null_column
from kdissect.tables.column import BOOL, INT16, INT32, INT64, TEXT
from kdissect.tables.column_values import combine_chunks, every_row, int_values, valid_mask
from kdissect.tables.schemas import CONNECTIONS

FEW = 4
"""Rows for each row of a column of which they are, at least, for that column to be of few rows."""

Measure: TypeAlias = "Int64s | Bools | tuple[Int64s, Bools]"


@dataclass(frozen=True, slots=True, eq=False)
class PartialTable:
    """One table of a partial report: its columns by what happens to them when rows become one.

    A table is equal to itself only. Its hash is thus found at once, not from all of its columns.
    """

    name: str
    keys: tuple[tuple[str, pa.DataType], ...]
    sums: tuple[str, ...] = ()
    lowest: tuple[str, ...] = ()
    highest: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    """Columns that decide which row comes first: ascending, nulls last."""
    first: tuple[tuple[str, pa.DataType], ...] = ()
    """Columns taken from the row that comes first."""
    most: int = 0
    """The highest number of rows, 0 for any number; see `row_limits`."""
    spare: tuple[tuple[str, ...], ...] = ()
    """Groups of keys that become null, one after the other, for the lightest rows when there are too many."""
    earliest: str = ""
    """Instead of `spare`: the key by which the first rows stay; the others become one row without keys."""
    run: tuple[str, str] = ("", "")
    """A key and a highest column that are begin and end of a range; ranges that touch become one."""

    @property
    def schema(self) -> pa.Schema:
        """Return the columns in the order keys, sums, lowest, highest, first."""
        return _schema(self)


@cache
def _schema(part: PartialTable) -> pa.Schema:
    measured = [(name, INT64) for name in (*part.sums, *part.lowest, *part.highest)]
    return pa.schema([*part.keys, *measured, *part.first])


class TableField(NamedTuple):
    """Name and type of a column of a partial table."""

    name: str
    kind: pa.DataType
    is_text: bool


@cache
def table_fields(part: PartialTable) -> tuple[TableField, ...]:
    """Return the columns of a table as Python has them: Arrow makes an object for each that is asked for."""
    return tuple(TableField(field.name, field.type, field.type == TEXT) for field in part.schema)


@cache
def coded_schema(part: PartialTable) -> pa.Schema:
    """Return the columns of a table with codes for texts."""
    return pa.schema(
        [field.with_type(pa.dictionary(CODE, TEXT)) if field.type == TEXT else field for field in part.schema]
    )


LOCATION = (
    ("order_ns", INT64),
    ("time_ns", INT64),
    ("capture_file", TEXT),
    ("request_packet", INT64),
    ("response_packet", INT64),
    ("connection", INT64),
    ("ordinal", INT64),
    ("client_id", TEXT),
    ("topic", TEXT),
    ("topic_id", TEXT),
    ("partition", INT32),
    ("detail", TEXT),
)
"""Location where something was seen; `order_ns` decides which occurrence is kept (the lowest)."""

CALLS = PartialTable(
    "calls",
    keys=(
        ("connection", INT64),
        ("client_id", TEXT),
        ("api_key", INT16),
        ("api_name", TEXT),
        ("api_version", INT16),
        ("group_id", TEXT),
        ("status", TEXT),
        ("idle_wait", BOOL),
    ),
    sums=(
        "exchanges",
        "error_responses",
        "errors",
        "faults",
        "request_bytes",
        "response_bytes",
        "throttled",
        "throttle_ms",
        "pipelined",
        "acks_none",
        "acks_leader",
        "acks_all",
        "timed",
        "untimed",
        "latency_ns",
        "transfer_ns",
    ),
    lowest=("first_ns", "latency_min_ns"),
    highest=("last_ns", "latency_max_ns", "transfer_max_ns", "throttle_max_ms", "in_flight_max"),
)

LATENCIES = PartialTable(
    "latencies",
    keys=(
        ("connection", INT64),
        ("client_id", TEXT),
        ("api_key", INT16),
        ("api_version", INT16),
        ("group_id", TEXT),
        ("idle_wait", BOOL),
        ("bucket", INT16),
    ),
    sums=("count",),
)

TOPIC_FLOWS = PartialTable(
    "topic_flows",
    keys=(
        ("topic", TEXT),
        ("topic_id", TEXT),
        ("api_key", INT16),
        ("connection", INT64),
        ("client_id", TEXT),
        ("group_id", TEXT),
        ("codec", TEXT),
    ),
    sums=(
        "mentions",
        "errors",
        "records",
        "batches",
        "record_bytes",
        "sampled_bytes",
        "sampled_lz4_bytes",
    ),
    lowest=("first_ns",),
    highest=("last_ns",),
)

TOPIC_PARTITIONS = PartialTable(
    "topic_partitions",
    keys=(("topic", TEXT), ("topic_id", TEXT), ("partition", INT32)),
    sums=("mentions",),
)

TOPIC_CALLS = PartialTable(
    "topic_calls",
    keys=(
        ("topic", TEXT),
        ("topic_id", TEXT),
        ("api_key", INT16),
        ("connection", INT64),
        ("client_id", TEXT),
        ("idle_wait", BOOL),
    ),
    sums=("exchanges", "timed", "latency_ns"),
    lowest=("latency_min_ns",),
    highest=("latency_max_ns",),
)

TOPIC_LATENCIES = PartialTable(
    "topic_latencies",
    keys=(("topic", TEXT), ("topic_id", TEXT), ("api_key", INT16), ("idle_wait", BOOL), ("bucket", INT16)),
    sums=("count",),
)

FIRST_SEEN = PartialTable(
    "sightings",
    keys=(
        ("kind", TEXT),  # error | fault | unanswered | orphan | throttled | slowest
        ("api_key", INT16),
        ("api_name", TEXT),
        ("api_version", INT16),  # null for errors
        ("code", INT16),  # of errors
        ("name", TEXT),  # error name; shape of a fault
    ),
    sums=("exchanges", "partitions"),
    order=tuple(name for name, _ in LOCATION),
    first=LOCATION,
)

FINDING_INPUTS = PartialTable(
    "notable",
    keys=(
        ("kind", TEXT),
        ("connection", INT64),
        ("client_id", TEXT),
        ("api_key", INT16),
        ("api_version", INT16),
        ("code", INT16),
        ("group_id", TEXT),
        ("transactional_id", TEXT),
        ("topic", TEXT),
        ("topic_id", TEXT),
        ("partition", INT32),
        ("replica_id", INT32),
        ("generation", INT32),
        ("second", INT64),
    ),
    sums=("exchanges", "amount"),
    lowest=("first_ns",),
    highest=("last_ns", "most"),
    order=("order_ns", "capture_file", "request_packet", "response_packet"),
    first=(
        ("order_ns", INT64),
        ("capture_file", TEXT),
        ("request_packet", INT64),
        ("response_packet", INT64),
        ("request_first_ns", INT64),
        ("response_first_ns", INT64),
    ),
)
"""Inputs of findings (see `finding_inputs`); `amount` and `most`: sum and maximum of throttled ms.

For errors `amount` is the number of requests, each at its first partition.
"""

LAGS = PartialTable(
    "lags",
    keys=(
        ("edge", TEXT),  # first | last
        ("connection", INT64),
        ("client_id", TEXT),
        ("topic", TEXT),
        ("topic_id", TEXT),
        ("partition", INT32),
    ),
    sums=("exchanges",),
    highest=("most",),
    order=("order_ns", "lag", "capture_file", "request_packet", "response_packet"),
    first=(
        ("order_ns", INT64),
        ("lag", INT64),
        ("capture_file", TEXT),
        ("request_packet", INT64),
        ("response_packet", INT64),
    ),
)
"""The lag of a consumer in a partition at its first and its last fetch, and the largest lag (`most`).

`order_ns` is the time, and minus the time for the last.
"""

CONNECTION_FACTS = PartialTable(
    "connections",
    keys=(("connection", INT64),),
    order=("first_time_ns", "last_time_ns", "packets"),
    first=tuple((field.name, field.type) for field in CONNECTIONS if field.name != "connection"),
)

NAMES = PartialTable("names", keys=(("topic_id", TEXT), ("topic", TEXT)))

BROKERS = PartialTable("brokers", keys=(("node_id", INT32), ("host", TEXT), ("port", INT32)))

PARTIAL_TABLES = {
    table.name: table
    for table in (
        CALLS,
        LATENCIES,
        TOPIC_FLOWS,
        TOPIC_PARTITIONS,
        TOPIC_CALLS,
        TOPIC_LATENCIES,
        FIRST_SEEN,
        FINDING_INPUTS,
        LAGS,
        CONNECTION_FACTS,
        NAMES,
        BROKERS,
    )
}


def make_table(
    part: PartialTable, groups: RowGroups, keys: Mapping[str, AnyColumn], measures: Mapping[str, Measure]
) -> ArrayBatch:
    """Return one row for each group from `keys` (keys and `first` by group) and `measures` (by row).

    A measure is a column of whole numbers, a mask to count, or numbers with the mask of those that are
    present.
    """
    columns: dict[str, AnyColumn] = dict(keys)
    for name in part.sums:
        values = measures[name]
        columns[name] = sum_by_group(groups, values if isinstance(values, np.ndarray) else values[0])
    for names, extreme in ((part.lowest, lowest_by_group), (part.highest, highest_by_group)):
        for name in names:
            measure = measures[name]
            values, present = measure if isinstance(measure, tuple) else (measure, every_row(len(measure)))
            columns[name] = extreme(groups, np.asarray(values, np.int64), present)
    return part_table(part, columns)


def part_table(part: PartialTable, columns: Mapping[str, AnyColumn]) -> ArrayBatch:
    """Return columns as rows of a table."""
    parts = {field.name: [_typed(columns[field.name], field)] for field in table_fields(part)}
    return ArrayBatch(parts, part.schema, len(next(iter(parts.values()))[0]))


def _typed(column: AnyColumn, field: TableField) -> ArrayColumn:
    """Return a column as arrays; flags may be null, so they are numbers."""
    column = plain_column(column)
    if isinstance(column, CodedText):
        return column.compact()
    if field.is_text:
        return code_text(column)
    return NumberColumn(*whole_numbers(column), field.kind)


@cache
def no_rows(part: PartialTable) -> ArrayBatch:
    """Return no rows of a table."""
    return part_table(part, {field.name: null_column(0, field.kind) for field in table_fields(part)})


def array_rows(part: PartialTable, rows: pa.Table | ArrayBatch) -> ArrayBatch:
    """Return rows of a table as arrays."""
    if isinstance(rows, ArrayBatch):
        return rows
    return join_rows(part, [rows])


def coded_rows(part: PartialTable, rows: pa.Table | ArrayBatch) -> pa.Table:
    """Return rows as a table of Arrow with codes for texts."""
    arrays = array_rows(part, rows)
    columns = [arrays.column(name) for name in part.schema.names]
    return pa.Table.from_arrays(
        [column.codes() if isinstance(column, CodedText) else arrow_column(column) for column in columns],
        schema=coded_schema(part),
    )


def plain_rows(part: PartialTable, rows: pa.Table | ArrayBatch) -> pa.Table:
    """Return rows as a table of Arrow with texts."""
    if isinstance(rows, ArrayBatch):
        return pa.Table.from_arrays([rows[name] for name in part.schema.names], schema=part.schema)
    return rows.cast(part.schema) if rows.schema.equals(coded_schema(part)) else rows


def join_rows(part: PartialTable, tables: Sequence[pa.Table | ArrayBatch]) -> ArrayBatch:
    """Return the rows of some tables of one kind, none if there is no table.

    Columns become arrays when somebody asks for them. A column of Arrow is given up then: both would take
    twice the memory.
    """
    filled = [rows for rows in tables if rows.num_rows]
    if not filled:
        return no_rows(part)
    if len(filled) == 1 and isinstance(filled[0], ArrayBatch):
        return filled[0]
    fields = {field.name: field for field in table_fields(part)}
    sources = {
        name: [rows if isinstance(rows, ArrayBatch) else rows[name] for rows in filled] for name in fields
    }

    def make(name: str) -> list[ArrayColumn]:
        parts: list[ArrayColumn] = []
        for rows in sources.pop(name):
            is_made = isinstance(rows, ArrayBatch)
            parts += rows.parts[name] if is_made else [_typed(combine_chunks(rows), fields[name])]
        return parts

    return ArrayBatch(LateColumns(make), part.schema, sum(rows.num_rows for rows in filled))


def sort_rows(part: PartialTable, columns: TableColumns) -> TableColumns:
    """Return the rows of a table in the order of its keys, nulls last."""
    order = _key_order(part, columns)
    return columns if order is None else columns.take(order)


def order_rows(part: PartialTable, rows: pa.Table | ArrayBatch) -> ArrayBatch:
    """Return what `sort_rows` does, of rows that nobody else has: no column is kept in both orders."""
    batch = array_rows(part, rows)
    order = _key_order(part, TableColumns(batch))
    return batch if order is None else give_rows(batch, order)


def _key_order(part: PartialTable, columns: TableColumns) -> Int64s | None:
    """Return the rows of a table in the order of its keys, None if they are in it."""
    keys = [key for name, _ in part.keys for key in _order(columns.column(name))]
    differing = [key for key in keys if len(key) and key.min() < key.max()]
    order = np.lexsort(differing[::-1]) if differing else np.arange(columns.rows)
    return None if (order == np.arange(columns.rows)).all() else order


def roll_up(part: PartialTable, table: pa.Table | ArrayBatch) -> ArrayBatch:
    """Return one row for all rows that share the keys; the order of the result is unspecified."""
    columns = TableColumns(table)
    return roll_up_columns(
        part, {field.name: columns.column(field.name) for field in part.schema}, table.num_rows
    )


def roll_up_columns(part: PartialTable, columns: Mapping[str, AnyColumn], count: int) -> ArrayBatch:
    """Return one row for all of `count` rows that share the keys; columns that are missing are null."""
    if not count:
        return no_rows(part)
    keys = _key_codes([columns[name] for name, _ in part.keys if name in columns])
    groups = group_rows(*keys) if keys else one_group(count)
    order = (key for name in part.order if name in columns for key in _order(columns[name]))
    return roll_up_groups(part, columns, groups, first_rows(groups, order))


def roll_up_groups(
    part: PartialTable, columns: Mapping[str, AnyColumn], groups: RowGroups, first: Int64s
) -> ArrayBatch:
    """Return one row for each group, with keys and `first` of its row in `first`."""
    taken = {
        name: take_rows(columns[name], first) if name in columns else null_column(groups.count, kind)
        for name, kind in (*part.keys, *part.first)
    }
    absent = np.zeros(len(groups.of), np.int64), np.zeros(len(groups.of), bool)
    measures: dict[str, Measure] = {}
    for name in part.sums:
        measures[name] = whole_numbers(columns[name])[0] if name in columns else absent[0]
    for name in (*part.lowest, *part.highest):
        measures[name] = whole_numbers(columns[name]) if name in columns else absent
    return make_table(part, groups, taken, measures)


def _key_codes(columns: Sequence[AnyColumn]) -> list[Codes]:
    """Return codes by which rows are grouped. Columns that are rows of the same few are grouped as those."""
    codes: list[Codes] = []
    of_few: dict[int, list[ColumnRows]] = {}
    for column in columns:
        if isinstance(column, ColumnRows) and FEW * len(column.column) <= len(column):
            of_few.setdefault(id(column.rows), []).append(column)
        else:
            codes.append(column_codes(column))
    for together in of_few.values():
        rows = together[0].rows
        if int(rows.min()) < 0:
            codes += map(column_codes, together)
        else:
            groups = group_rows(*(column_codes(few.column) for few in together))
            codes.append(Codes(groups.of.take(rows), groups.count))
    return codes


def column_codes(column: AnyColumn) -> Codes:
    """Return the distinct values of a column of any kind as codes."""
    column = plain_column(column)
    if isinstance(column, CodedText):
        return encode(column)
    if isinstance(column, pa.Array | pa.ChunkedArray) and not pa.types.is_integer(column.type):
        return encode(combine_chunks(column))
    return encode_numbers(*whole_numbers(column))


def _order(column: AnyColumn) -> tuple[Int64s, ...]:
    """Return numbers to sort by in the order of a column, nulls last."""
    column = plain_column(column)
    if isinstance(column, CodedText):
        return (column.ranks(),)
    values, present = whole_numbers(column)
    return (values,) if present.all() else ((~present).astype(np.int64), values)


def whole_numbers(column: AnyColumn) -> tuple[Int64s, Bools]:
    """Return whole numbers, 0 for null, and where they are present."""
    column = plain_column(column)
    if isinstance(column, NumberColumn):
        return column.values, column.present
    if isinstance(column, np.ndarray):
        return column.astype(np.int64, copy=False), every_row(len(column))
    assert not isinstance(column, CodedText)
    present = valid_mask(column)
    if pa.types.is_boolean(column.type):
        return true_mask(combine_chunks(column)).astype(np.int64), present
    return int_values(column, present), present
