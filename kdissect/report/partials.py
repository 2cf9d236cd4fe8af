"""Partial reports: what one batch of the public tables contributes to a report, and how contributions add up.

In come batches of connections, exchanges and partitions (and of the side tables names and brokers) wherever
they were made. Out goes a `Partial`, a set of small Arrow tables (see `aggregate.partial_tables`). Partials
of any batches merge in any order to the same result. One rule binds whoever makes batches: the partitions of
an exchange come with it, in the same call.

With a grid of time, a partial also has the tables of the timeline (see `timeline`), for which `ends` must
come with exchanges.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from kdissect.report.aggregate.calls import count_calls, group_by_client
from kdissect.report.aggregate.finding_inputs import select_finding_inputs
from kdissect.report.aggregate.first_seen import find_first_seen
from kdissect.report.aggregate.grouping import TableColumns, encode_numbers
from kdissect.report.aggregate.lag import count_lags
from kdissect.report.aggregate.network_tables import NETWORK_TABLES, count_network
from kdissect.report.aggregate.partial_rows import (
    array_rows,
    join_rows,
    order_rows,
    packed_rows,
    plain_rows,
    roll_up,
    sort_rows,
    whole_numbers,
)
from kdissect.report.aggregate.partial_tables import (
    BROKERS,
    CONNECTION_FACTS,
    FINDING_INPUTS,
    FIRST_SEEN,
    LAGS,
    NAMES,
    PARTIAL_TABLES,
    PartialTable,
)
from kdissect.report.aggregate.row_limits import is_spent, keeps_first_half, limit_rows
from kdissect.report.aggregate.topics import count_topics, rows_of_exchanges
from kdissect.report.timeline.count import count_timeline
from kdissect.report.timeline.count_examples import EXAMPLE_TABLES
from kdissect.report.timeline.count_side_tables import count_events, count_side_tables
from kdissect.report.timeline.count_signals import count_signals
from kdissect.report.timeline.grid import Grid
from kdissect.report.timeline.signal_tables import SIGNAL_TABLES
from kdissect.report.timeline.timeline_tables import TIMELINE_TABLES
from kdissect.tables.array_batch import ArrayBatch
from kdissect.tables.arrow_streams import Stream, write_streams
from kdissect.tables.column import TEXT
from kdissect.tables.schemas import PARTITIONS

CONNECTION = "connection"
LARGE_TABLE = 1 << 12  # rows: those of fewer take little memory
PARTIAL = pa.schema([("part", TEXT), ("rows", pa.binary())])
"""A partial in transport: one row for each table, which is an Arrow IPC stream."""


@dataclass(frozen=True, slots=True)
class Partial:
    """A mergeable report: one table for each kind of table that has rows, of Arrow or of arrays."""

    tables: Mapping[str, pa.Table | ArrayBatch]
    _columns: dict[str, TableColumns] = field(default_factory=dict, init=False, repr=False, compare=False)

    def table(self, kind: PartialTable) -> pa.Table:
        """Return the rows of a table, none if there are none."""
        return plain_rows(kind, self._rows(kind))

    def columns(self, kind: PartialTable) -> TableColumns:
        """Return the columns of a table, the same for all who ask: each column is converted once."""
        if kind.name not in self._columns:
            self._columns[kind.name] = TableColumns(array_rows(kind, self._rows(kind)))
        return self._columns[kind.name]

    def count(self, kind: PartialTable) -> int:
        """Return the number of rows of a table."""
        return int(self._rows(kind).num_rows)

    def ordered(self, kind: PartialTable) -> TableColumns:
        """Return the columns of a table in the order of its keys, which all who ask later get, too."""
        self._columns[kind.name] = ordered = sort_rows(kind, self.columns(kind))
        return ordered

    def _rows(self, kind: PartialTable) -> pa.Table | ArrayBatch:
        return self.tables.get(kind.name, kind.schema.empty_table())


EMPTY = Partial({})
ALL_TABLES = PARTIAL_TABLES | NETWORK_TABLES | TIMELINE_TABLES | SIGNAL_TABLES | EXAMPLE_TABLES


def summarise(
    tables: Mapping[str, pa.RecordBatch | pa.Table | ArrayBatch],
    grid: Grid | None = None,
    steps: Grid | None = None,
    packed: bool = False,
) -> Partial:
    """Return the partial of batches of `connections`, `exchanges`, `partitions`, `names` and `brokers`.

    Any of them may be absent. A grid adds the tables of the timeline, which may also use `ends`,
    `group_events` and `transaction_events`. A grid of `steps` adds the tables of signals, which use `ends`.
    A partial that waits to be merged has its large tables `packed`, each as soon as it is made: with 12,500
    connections in a task, a worker took 205 MiB more than before it instead of 235, in the same time.
    """
    parts = {}
    for some in _parts(tables, grid, steps):
        for name, rows in some.items():
            if rows.num_rows:
                is_large = packed and rows.num_rows > LARGE_TABLE
                parts[name] = packed_rows(ALL_TABLES[name], rows) if is_large else rows
    return Partial(parts)


def _parts(
    tables: Mapping[str, pa.RecordBatch | pa.Table | ArrayBatch], grid: Grid | None, steps: Grid | None
) -> Iterator[Mapping[str, pa.Table | ArrayBatch]]:
    """Yield the tables of a partial, some at a time."""
    for part in (CONNECTION_FACTS, NAMES, BROKERS):
        if part.name in tables and tables[part.name].num_rows:
            rows = _as_table(tables[part.name]).select(part.schema.names).cast(part.schema)
            yield {part.name: roll_up(part, rows)}
    yield count_network(tables)
    if grid is not None or steps is not None:
        yield count_events(tables)
    if steps is not None:
        yield count_side_tables(tables)
    if "exchanges" not in tables:
        return
    exchanges, partitions = (
        TableColumns(tables["exchanges"]),
        TableColumns(tables["partitions"] if "partitions" in tables else PARTITIONS.empty_table()),
    )
    clients, exchange_rows = group_by_client(exchanges), rows_of_exchanges(partitions, exchanges)
    yield count_calls(exchanges)
    yield {FIRST_SEEN.name: find_first_seen(exchanges, partitions, exchange_rows)}
    yield {FINDING_INPUTS.name: select_finding_inputs(exchanges, partitions, exchange_rows, clients)}
    yield {LAGS.name: count_lags(partitions, exchanges, exchange_rows)}
    yield count_topics(partitions, exchanges, exchange_rows)
    if grid is not None:
        yield count_timeline(tables, exchanges, partitions, exchange_rows, grid)
    if steps is not None:
        yield count_signals(tables, exchanges, partitions, exchange_rows, steps)


def merge(partials: Iterable[Partial]) -> Partial:
    """Return the sum of partials: the order does not matter, and `EMPTY` changes nothing."""
    gathered = _by_table(partials)
    return Partial({name: _together(ALL_TABLES[name], gathered.pop(name)) for name in [*gathered]})


def _by_table(partials: Iterable[Partial]) -> dict[str, list[pa.Table | ArrayBatch]]:
    gathered: dict[str, list[pa.Table | ArrayBatch]] = {}
    for partial in partials:
        for name, rows in partial.tables.items():
            gathered.setdefault(name, []).append(rows)
    return gathered


def _together(part: PartialTable, tables: list[pa.Table | ArrayBatch]) -> pa.Table | ArrayBatch:
    if len(tables) == 1:
        return tables[0]
    together = join_rows(part, tables)
    if _share_no_connection(part, together):
        return limit_rows(part, together) if part.most else together
    return limit_rows(part, roll_up(part, together))


def _share_no_connection(part: PartialTable, together: ArrayBatch) -> bool:
    """Return whether no row of a table can meet one of another: their connections are all different.

    Tasks share no connections, and the tables that grow with connections are the large ones. Grouping their
    rows once more takes time and memory of the driver, and changes nothing. Rows of a limited table that
    have given up their connection may meet, but `limit_rows` groups those anyway.
    """
    if CONNECTION not in dict(part.keys) or (part.most and not keeps_first_half(part)):
        return False
    tables = [whole_numbers(column) for column in together.parts[CONNECTION]]
    values, present = (np.concatenate(arrays) for arrays in zip(*tables, strict=True))
    if not (present | (is_spent(part, TableColumns(together)) if part.most else False)).all():
        return False
    codes = encode_numbers(values, present)
    owned, row = np.zeros(codes.bound, bool), 0
    for own, _ in tables:
        numbers = codes.numbers[row : row + len(own)]
        numbers, row = numbers[numbers >= 0], row + len(own)
        if owned[numbers].any():
            return False
        owned[numbers] = True
    return True


def to_arrow(partial: Partial, packed: bool = False) -> pa.RecordBatch:
    """Return a partial as a batch of schema `PARTIAL`.

    Its tables have the columns of `PartialTable.schema`, as files keep them, or those of `packed_rows` if
    `packed`: that takes less time, and suits what is read at once.
    """
    streams = [_stream(ALL_TABLES[name], rows, packed) for name, rows in partial.tables.items()]
    room, places = write_streams(streams)
    buffers = [None, pa.array(places, pa.int32()).buffers()[1], room]
    rows = pa.Array.from_buffers(pa.binary(), len(streams), buffers)
    return pa.record_batch([pa.array(list(partial.tables), TEXT), rows], schema=PARTIAL)


def _stream(part: PartialTable, rows: pa.Table | ArrayBatch, packed: bool) -> Stream:
    """Return rows to write. Those that grow with connections shrink to a third if compressed, others not."""
    if not packed:
        return Stream(plain_rows(part, rows), "lz4")
    return Stream(packed_rows(part, rows), "lz4" if CONNECTION in dict(part.keys) else None)


def from_arrow(batches: Iterable[pa.RecordBatch]) -> Partial:
    """Return the sum of the partials in batches of schema `PARTIAL`; rows may be in any order.

    One table after the other is unpacked, and a table that is limited in parts: all of them at once would
    take several times the memory of the result. Rows are copied, so that a batch does not stay until the
    last of its tables is unpacked.
    """
    packed: dict[str, list[bytes]] = {}
    for batch in batches:
        for name, rows in zip(batch["part"].to_pylist(), batch["rows"].to_pylist(), strict=True):
            packed.setdefault(name, []).append(rows)
    merged = {}
    for name in sorted(packed):
        merged[name] = _unpacked(ALL_TABLES[name], packed.pop(name))
    if CONNECTION_FACTS.name in merged:  # ordered here, no column of them is kept in both orders
        merged[CONNECTION_FACTS.name] = order_rows(CONNECTION_FACTS, merged[CONNECTION_FACTS.name])
    pa.default_memory_pool().release_unused()  # not for each table: it takes half a millisecond
    return Partial(merged)


def _unpacked(part: PartialTable, blobs: Sequence[bytes]) -> pa.Table | ArrayBatch:
    """Return the sum of packed tables. Those with a limit are added up whenever they are at twice that."""
    tables: list[pa.Table | ArrayBatch] = []
    for blob in blobs:
        tables.append(pa.ipc.open_stream(blob).read_all())
        if part.most and sum(table.num_rows for table in tables) >= 2 * part.most:
            tables = [_together(part, tables)]
    return _together(part, tables)


def _as_table(batch: pa.RecordBatch | pa.Table) -> pa.Table:
    return pa.Table.from_batches([batch]) if isinstance(batch, pa.RecordBatch) else batch
