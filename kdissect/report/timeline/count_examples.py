"""Single exchanges that the page can show in full: which ones, and with which columns.

- EXAMPLES_BY_LATENCY: the slowest of each API in each step of time.
- EXAMPLES_BY_ERROR: the first of each API, error and client in each step; UNANSWERED stands for no response.
- EXAMPLES_BY_CONNECTION: the earliest exchanges of the capture. For a small capture that is all of them.

An exchange may be in several of them. Their columns are those of the table `exchanges`, and `partitions`: the
first few partitions as JSON, each a list of `PARTITION_FIELDS`.
"""

import json
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from kdissect.array_types import Bools, Int64s
from kdissect.report.aggregate.column_rows import AnyColumn, columns_at
from kdissect.report.aggregate.grouping import TableColumns
from kdissect.report.aggregate.partial_rows import plain_rows, whole_numbers
from kdissect.report.aggregate.partial_tables import PartialTable
from kdissect.report.aggregate.row_limits import limit_rows
from kdissect.report.timeline.activity import NO_CELL, activity_measures
from kdissect.report.timeline.exchange_columns import ExchangeColumns, make_timeline_table
from kdissect.report.timeline.timeline_tables import FIRST, ORDER, WHERE
from kdissect.tables.column import BOOL, INT16, INT32, INT64, TEXT
from kdissect.tables.schemas import EXCHANGES

CELL_SHIFT = 52
"""The highest cell comes first, and of a cell the earliest exchange: both are one number."""

UNANSWERED = -(1 << 15)
"""Stands as error code of an exchange without a response."""

PARTITION_FIELDS = ("topic", "topic_id", "partition", "error_code", "offset", "records", "record_bytes")
MOST_PARTITIONS = 6

_LOCATED = {name for name, _ in FIRST}
KEPT = tuple(field for field in EXCHANGES if field.name not in _LOCATED)
"""The columns of the table `exchanges` that an example has beside its location."""

EXAMPLE = (*FIRST, *((field.name, field.type) for field in KEPT), ("partitions", TEXT))

EXAMPLES_BY_LATENCY = PartialTable(
    "examples_by_latency",
    keys=(("by_step", INT32), ("by_api", INT16), ("by_idle", BOOL)),
    sums=("examples",),
    order=ORDER,
    first=EXAMPLE,
    most=1200,
    spare=(("by_idle",), ("by_step",)),
)

EXAMPLES_BY_ERROR = PartialTable(
    "examples_by_error",
    keys=(("by_step", INT32), ("by_api", INT16), ("by_code", INT32), ("by_client", TEXT), ("by_host", TEXT)),
    sums=("examples",),
    order=ORDER,
    first=EXAMPLE,
    most=1200,
    spare=(("by_client", "by_host"), ("by_step",)),
)

EXAMPLES_BY_CONNECTION = PartialTable(
    "examples_by_connection",
    keys=(("by_time", INT64), ("by_connection", INT64), ("by_ordinal", INT64)),
    sums=("examples",),
    order=ORDER,
    first=EXAMPLE,
    most=3000,
    earliest="by_time",
)

EXAMPLE_TABLES = {
    part.name: part for part in (EXAMPLES_BY_LATENCY, EXAMPLES_BY_ERROR, EXAMPLES_BY_CONNECTION)
}


def count_examples(
    source: ExchangeColumns, partitions: TableColumns, exchange_rows: Int64s, start_ns: int
) -> dict[str, pa.Table]:
    """Return the rows of EXAMPLE_TABLES. `start_ns` is the time of the first step."""
    exchanges, columns = source.exchanges, source.columns
    cell: Int64s = np.asarray(activity_measures(source, ["cell"])["cell"], np.int64)
    since = np.clip(source.begin - start_ns, 0, (1 << CELL_SHIFT) - 1)
    code = np.where(exchanges.equals("status", "unanswered"), UNANSWERED, exchanges.ints("error_code"))
    wrong: Bools = code != 0
    chosen: tuple[tuple[PartialTable, Bools, Int64s, Mapping[str, AnyColumn]], ...] = (
        (
            EXAMPLES_BY_LATENCY,
            cell != NO_CELL,
            since - (cell << CELL_SHIFT),
            {"by_step": columns["step"], "by_api": columns["api_key"], "by_idle": columns["idle_wait"]},
        ),
        (
            EXAMPLES_BY_ERROR,
            wrong,
            source.begin,
            {
                "by_step": columns["step"],
                "by_api": columns["api_key"],
                "by_code": code,
                "by_client": columns["client_id"],
                "by_host": columns["client_host"],
            },
        ),
        (
            EXAMPLES_BY_CONNECTION,
            exchanges.present("ordinal"),
            source.begin,
            {
                "by_time": source.begin,
                "by_connection": columns["connection"],
                "by_ordinal": exchanges.column("ordinal"),
            },
        ),
    )
    found = {}
    for part, mask, order, keys in chosen:
        own: dict[str, AnyColumn] = {field.name: exchanges.column(field.name) for field in KEPT} | dict(keys)
        own |= {name: columns[name] for name, _ in WHERE}
        own |= {"order_ns": order, "row": np.arange(exchanges.rows), "examples": np.ones(exchanges.rows, int)}
        rows = np.flatnonzero(mask)
        taken = columns_at(own, rows)
        if part.earliest:
            taken |= _late_together(part, taken)
        numbered = replace(part, first=(*part.first, ("row", INT64)))
        table = plain_rows(numbered, limit_rows(numbered, make_timeline_table(numbered, taken)))
        found[part.name] = _with_partitions(part, table, partitions, exchange_rows)
    return found


def _late_together(part: PartialTable, columns: Mapping[str, AnyColumn]) -> dict[str, AnyColumn]:
    """Return the keys of a table, null for the rows that `limit_rows` would make one row without keys.

    Each row has other keys, so there would be as many rows of the table as of a batch, with all its columns.
    """
    keys = {name: whole_numbers(columns[name])[0] for name, _ in part.keys}
    count = len(next(iter(keys.values())))
    if count <= part.most:
        return {}
    order = np.lexsort([keys[name] for name, _ in reversed(part.keys)])
    is_late = np.ones(count, bool)
    is_late[order[: part.most // 2]] = False
    return {name: pa.array(column, mask=is_late) for name, column in keys.items()}


def _with_partitions(
    part: PartialTable, table: pa.Table, partitions: TableColumns, exchange_rows: Int64s
) -> pa.Table:
    """Return the table with the partitions of each exchange, whose row is in the column `row`."""
    wanted = TableColumns(table).ints("row")
    is_wanted = np.zeros(max(wanted.max(initial=0), exchange_rows.max(initial=0)) + 2, bool)
    is_wanted[wanted] = True  # the last place stands for row -1, of no exchange
    near = np.flatnonzero(is_wanted[exchange_rows])
    columns = {"row": exchange_rows[near]}
    columns |= {name: partitions.plain(name, near) for name in PARTITION_FIELDS}
    listed = pa.table(columns).sort_by([(name, "ascending") for name in columns])
    rows = listed["row"].to_numpy()
    early = np.arange(len(rows)) - np.searchsorted(rows, rows) < MOST_PARTITIONS  # of its exchange
    rows, listed = rows[early], listed.filter(pa.array(early))
    fields = list(zip(*(listed[name].to_pylist() for name in PARTITION_FIELDS), strict=True))
    starts, stops = (np.searchsorted(rows, wanted, side).tolist() for side in ("left", "right"))
    texts = [
        json.dumps(fields[start:stop], separators=(",", ":")) if stop > start else None
        for start, stop in zip(starts, stops, strict=True)
    ]
    at = table.schema.get_field_index("partitions")
    return table.set_column(at, "partitions", pa.array(texts, pa.string())).select(part.schema.names)
