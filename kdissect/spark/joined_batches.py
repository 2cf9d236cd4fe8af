"""Batches of tables that are joined before figures are counted, which costs time for each batch."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from kdissect.report.timeline.count_side_tables import WITH_ENDS
from kdissect.tables.array_batch import ArrayBatch, join_batches
from kdissect.tables.filters import TableBatches

# Rows of one batch for figures. A batch costs milliseconds of calls, whatever its size, and a large one
# leaves the processor's cache. One of two tasks of a million exchanges on few connections took 0.93 s with
# two batches of the engine (16,382 exchanges each), and takes 0.78 with four. Many connections have as many
# rows of figures as exchanges, in the memory of a worker. Their batches are bounded by the connections that
# they meet (`ends`): 100,000 take as long with larger ones.
BATCH_ROWS = {"exchanges": 1 << 16, "partitions": 1 << 17, "ends": 24 << 10}
LARGE_BATCH = 1 << 14  # exchanges
SIDE_ROWS = 1 << 14  # of one of the other tables

WITH_EXCHANGES = ("exchanges", "partitions", "ends")
"""The tables whose rows belong together. Events, too, have to come with the ends of their connections."""

TablesTogether: TypeAlias = Mapping[str, pa.RecordBatch | pa.Table | ArrayBatch]


def coalesce_batches(batches: Iterable[TableBatches]) -> Iterator[TablesTogether]:
    """Join small batches: figures cost time per batch, and a split of large messages has few exchanges.

    A batch that is large already overtakes the small ones that are held: the order of batches does not matter
    to figures. Side tables have few rows for many exchanges. They are joined by themselves, and wait longer.
    """
    held: list[TableBatches] = []
    aside: list[TableBatches] = []
    for tables in batches:
        counted, others = _apart(tables)
        aside += [others] if others else []
        if _rows([counted], "exchanges") >= LARGE_BATCH:
            yield counted
        elif counted:
            held.append(counted)
        if any(_rows(held, table) >= most for table, most in BATCH_ROWS.items()):
            yield _joined(held)
        if any(_rows(aside, table) >= SIDE_ROWS for table in others):
            yield _joined(aside)
    for rest in (held, aside):
        if rest:
            yield _joined(rest)


def _apart(tables: TableBatches) -> tuple[TableBatches, TableBatches]:
    """Return exchanges with what belongs to them, and the side tables that have rows."""
    others = {name: rows for name, rows in tables.items() if name not in WITH_EXCHANGES and rows.num_rows}
    if "ends" in tables and any(name in others for name in WITH_ENDS):
        others["ends"] = tables["ends"]
    if tables.keys() <= set(WITH_EXCHANGES):
        return tables, others
    return {name: tables[name] for name in WITH_EXCHANGES if name in tables}, others


def _rows(held: Sequence[TableBatches], table: str) -> int:
    return sum(tables[table].num_rows for tables in held if table in tables)


def _joined(held: list[TableBatches]) -> TablesTogether:
    """Return batches as one table each, and let go of them.

    Nothing is copied: figures copy the columns that they need.
    """
    if len(held) == 1:
        return held.pop()
    together: dict[str, list[Any]] = {}
    for tables in held:
        for name, batch in tables.items():
            together.setdefault(name, []).append(batch)
    held.clear()
    return {  # all batches of a table are of one kind
        name: join_batches(batches) if isinstance(batches[0], ArrayBatch) else pa.Table.from_batches(batches)
        for name, batches in together.items()
    }
