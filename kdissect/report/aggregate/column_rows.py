"""Some rows of a column that are taken only when they are needed.

A table of figures is counted from some rows of exchanges or partitions, and has many columns. Its keys and
sums need all those rows, the other columns only the first row of each group. Taking all rows of all columns
took half of the time for examples, and a tenth of that for signals.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from kdissect.array_types import Bools, Int64s
from kdissect.tables.coded_text import CodedText, NumberColumn

PlainColumn: TypeAlias = "pa.Array | CodedText | NumberColumn | Int64s | Bools"
AnyColumn: TypeAlias = "PlainColumn | ColumnRows"


@dataclass(frozen=True, slots=True)
class ColumnRows:
    """Some rows of a column; row -1 is null, unless the column is an array."""

    column: PlainColumn
    rows: Int64s

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, rows: Int64s) -> PlainColumn:
        """Return some of the rows."""
        return _taken(self.column, self.rows[rows])


def columns_at(columns: Mapping[str, AnyColumn], rows: Int64s) -> dict[str, AnyColumn]:
    """Return some rows of columns, from row 0 on. Columns that share their rows still do."""
    shared: dict[int, Int64s] = {}
    taken: dict[str, AnyColumn] = {}
    for name, column in columns.items():
        if not isinstance(column, ColumnRows):
            taken[name] = ColumnRows(column, rows)
            continue
        if id(column.rows) not in shared:
            shared[id(column.rows)] = column.rows.take(rows)
        taken[name] = ColumnRows(column.column, shared[id(column.rows)])
    return taken


def plain_column(column: AnyColumn) -> PlainColumn:
    """Return a column with its rows taken."""
    return _taken(column.column, column.rows) if isinstance(column, ColumnRows) else column


def take_rows(column: AnyColumn, rows: Int64s) -> PlainColumn:
    """Return rows of a column."""
    return column.take(rows) if isinstance(column, ColumnRows) else _taken(column, rows)


def _taken(column: PlainColumn, rows: Int64s) -> PlainColumn:
    if isinstance(column, pa.Array | pa.ChunkedArray):
        return column.take(pa.array(rows))
    return column.take(rows)
