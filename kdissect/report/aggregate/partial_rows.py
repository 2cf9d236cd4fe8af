"""Rows of the tables of a partial report: made of groups, joined, ordered, and added up.

Rows are arrays, with codes in place of texts: they become a table of Arrow when a task has added up all of
its rows. As tables of Arrow in between they took a fifth of the time for figures.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from kdissect.array_types import Bools, Int64s
from kdissect.report.aggregate.column_rows import AnyColumn, ColumnRows, plain_column, take_rows
from kdissect.report.aggregate.group_sums import first_rows, highest_by_group, lowest_by_group, sum_by_group
from kdissect.report.aggregate.grouping import (
    Codes,
    RowGroups,
    TableColumns,
    encode,
    encode_numbers,
    group_rows,
    one_group,
    true_mask,
)
from kdissect.report.aggregate.packed_columns import pack_column, unpack_column
from kdissect.report.aggregate.partial_tables import PartialTable, TableField, table_fields
from kdissect.tables.array_batch import ArrayBatch, ArrayColumn, LateColumns, give_rows
from kdissect.tables.coded_text import CodedText, NumberColumn, any_absent, code_text, null_column
from kdissect.tables.column_values import combine_chunks, every_row, int_values, valid_mask

FEW = 4
"""Rows for each row of a column of which they are, at least, for that column to be of few rows."""

Measure: TypeAlias = "Int64s | Bools | tuple[Int64s, Bools]"


def make_table(
    part: PartialTable, groups: RowGroups, keys: Mapping[str, AnyColumn], measures: Mapping[str, Measure]
) -> ArrayBatch:
    """Return one row for each group from `keys` (keys and `first` by group) and `measures` (by row).

    A measure is a column of whole numbers, a mask to count, or numbers with the mask of those that are
    present.
    """
    return part_table(part, {**keys, **measured(part, groups, measures.__getitem__)})


def measured(
    part: PartialTable, groups: RowGroups, measure: Callable[[str], Measure]
) -> dict[str, AnyColumn]:
    """Return the sums and extremes of `make_table`, from the measure of each name, one after the other."""
    columns: dict[str, AnyColumn] = {}
    for name in part.sums:
        values = measure(name)
        columns[name] = sum_by_group(groups, values if isinstance(values, np.ndarray) else values[0])
    for names, extreme in ((part.lowest, lowest_by_group), (part.highest, highest_by_group)):
        for name in names:
            own = measure(name)
            values, present = own if isinstance(own, tuple) else (own, every_row(len(own)))
            columns[name] = extreme(groups, np.asarray(values, np.int64), present)
    return columns


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


def packed_rows(part: PartialTable, rows: pa.Table | ArrayBatch) -> pa.Table:
    """Return rows as a table of Arrow with packed columns, which `join_rows` and `plain_rows` understand."""
    arrays = array_rows(part, rows)
    packed = [pack_column(field.name, arrays.column(field.name)) for field in table_fields(part)]
    fields, columns = zip(*packed, strict=True)
    return pa.Table.from_arrays(list(columns), schema=pa.schema(fields))


def plain_rows(part: PartialTable, rows: pa.Table | ArrayBatch) -> pa.Table:
    """Return rows as a table of Arrow with texts."""
    if isinstance(rows, pa.Table) and rows.schema.equals(part.schema):
        return rows
    rows = array_rows(part, rows)
    return pa.Table.from_arrays([rows[name] for name in part.schema.names], schema=part.schema)


def join_rows(part: PartialTable, tables: Sequence[pa.Table | ArrayBatch]) -> ArrayBatch:
    """Return the rows of some tables of one kind, none if there is no table.

    Columns become arrays when somebody asks for them.
    """
    filled = [rows for rows in tables if rows.num_rows]
    if not filled:
        return no_rows(part)
    if len(filled) == 1 and isinstance(filled[0], ArrayBatch):
        return filled[0]
    kinds = {field.name: field.kind for field in table_fields(part)}
    sources = {name: [_source(rows, name) for rows in filled] for name in kinds}

    def make(name: str) -> list[ArrayColumn]:
        parts: list[ArrayColumn] = []
        for source in sources[name]:
            if isinstance(source, ArrayBatch):
                parts += source.parts[name]
            else:
                parts.append(unpack_column(*source, kinds[name]))
        return parts

    return ArrayBatch(LateColumns(make, sources), part.schema, sum(rows.num_rows for rows in filled))


def _source(rows: pa.Table | ArrayBatch, name: str) -> ArrayBatch | tuple[pa.ChunkedArray, pa.Field]:
    return rows if isinstance(rows, ArrayBatch) else (rows[name], rows.schema.field(name))


def sort_rows(part: PartialTable, columns: TableColumns) -> TableColumns:
    """Return the rows of a table in the order of its keys, nulls last.

    Then sums of logarithms, which depend on the order, are the same however the work was divided.
    """
    order = key_order(part, columns)
    return columns if order is None else columns.take(order)


def order_rows(part: PartialTable, rows: pa.Table | ArrayBatch) -> ArrayBatch:
    """Return what `sort_rows` does, of rows that nobody else has: no column is kept in both orders."""
    batch = array_rows(part, rows)
    order = key_order(part, TableColumns(batch))
    return batch if order is None else give_rows(batch, order)


def key_order(part: PartialTable, columns: TableColumns) -> Int64s | None:
    """Return the rows of a table in the order of its keys, None if they are in it."""
    keys = [key for name, _ in part.keys for key in sort_numbers(columns.column(name))]
    differing = [key for key in keys if len(key) and key.min() < key.max()]
    if not differing or (differing[0][1:] > differing[0][:-1]).all():
        return None
    order: Int64s = np.lexsort(differing[::-1])
    return None if (order == np.arange(len(order))).all() else order


class UnkeptColumns(Mapping[str, AnyColumn]):
    """Columns of rows that are added up, one after the other; those of `twice` are read twice, and kept."""

    def __init__(self, columns: TableColumns, twice: Collection[str] = ()) -> None:
        self._columns, self._twice = columns, twice
        self._names: Sequence[str] = columns.table.schema.names

    def __contains__(self, name: object) -> bool:
        return name in self._names  # that of `Mapping` would unpack the column

    def __getitem__(self, name: str) -> AnyColumn:
        return self._columns.column(name) if name in self._twice else self._columns.unkept(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def roll_up(part: PartialTable, table: pa.Table | ArrayBatch) -> ArrayBatch:
    """Return one row for all rows that share the keys; the order of the result is unspecified."""
    keys = {name for name, _ in part.keys} | {*part.order}
    return roll_up_columns(part, UnkeptColumns(TableColumns(table), keys), table.num_rows)


def join_leaders(part: PartialTable, tables: Sequence[ArrayBatch], apart: bool) -> ArrayBatch:
    """Return one row for all rows of some tables that share the keys; `apart` if no two tables share any.

    Only one of the rows of a table that share the keys has counts. So if each row has some, there is nothing
    to add up, which took 0.7 ms for the dozen rows of a batch of figures.
    """
    rows = join_rows(part, tables)
    counted = (whole_numbers(rows.column(name))[0] > 0 for name in part.sums)
    return rows if apart and np.logical_or.reduce([*counted]).all() else roll_up(part, rows)


def roll_up_columns(part: PartialTable, columns: Mapping[str, AnyColumn], count: int) -> ArrayBatch:
    """Return one row for all of `count` rows that share the keys; columns that are missing are null."""
    if not count:
        return no_rows(part)
    keys = _key_codes([columns[name] for name, _ in part.keys if name in columns])
    groups = group_rows(*keys) if keys else one_group(count)
    if not part.order:
        return roll_up_groups(part, columns, groups, groups.first)
    order = (key for name in part.order if name in columns for key in sort_numbers(columns[name]))
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

    def measure(name: str) -> Measure:
        if name in part.sums:
            return _addends(columns[name]) if name in columns else absent[1]
        return whole_numbers(columns[name]) if name in columns else absent

    return part_table(part, {**taken, **measured(part, groups, measure)})


def _addends(column: AnyColumn) -> Int64s | Bools:
    """Return what a column adds: whole numbers, or a mask, which is counted."""
    if isinstance(column, np.ndarray) and column.dtype == bool:
        return column
    return whole_numbers(column)[0]


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
        if any_absent(rows):
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


def sort_numbers(column: AnyColumn) -> tuple[Int64s, ...]:
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
