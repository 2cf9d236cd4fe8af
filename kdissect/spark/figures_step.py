"""Figures of one task: from segment descriptors to partial summaries.

Most tasks find exchanges, make tables of them and count figures in one process, a batch at a time. A task
that has most of a capture would leave other cores without work. Then a `ConsumerProcess` makes tables of what
the engine in this process has found, and a thread of it counts figures. The first process reads the
messages, so both have about as much to do.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain

import pyarrow as pa

from kdissect.capture.index.splits import Split
from kdissect.capture.segment_index import Counts, pack_counts
from kdissect.report.aggregate.network_tables import tcp_step
from kdissect.report.partials import EMPTY, PARTIAL, Partial, merge, summarise, to_arrow
from kdissect.report.timeline.count import SOURCE_TABLES
from kdissect.report.timeline.count_signals import SIGNAL_SOURCES
from kdissect.report.timeline.grid import Grid
from kdissect.spark.consumer_process import ConsumerProcess
from kdissect.spark.counting_thread import mapped_beside
from kdissect.spark.joined_batches import TablesTogether, coalesce_batches
from kdissect.spark.task_tables import DEFAULT, Learnt, TableOptions, TaskTables
from kdissect.spark.tasks import COUNTS_PART, KnownRows, counting
from kdissect.streams.engine import ExchangeBatch
from kdissect.streams.own_bytes import own_bytes
from kdissect.streams.tcp.tcp_tracker import STEP_NS
from kdissect.tables.build import CarriedSides, Paired, carried_parts, new_table_processor, paired_batches
from kdissect.tables.engine_facts import EngineFacts
from kdissect.tables.filters import TCP_TABLES, TableBatches

MERGED_AT = 12  # partials that are merged at a time, of about 1 MB each
FEW_ROWS = 100  # a partial whose tables have fewer is small: MERGED_AT of these count as one
HANDED_OVER = 8 << 20  # bytes of messages, at most, unless one exchange has more


def summary_step(
    batches: Iterable[pa.RecordBatch],
    splits: Sequence[Split],
    treatment: TableOptions = DEFAULT,
    grid: Grid | None = None,
    steps: Grid | None = None,
    known: KnownRows | None = None,
    beside: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Yield partial summaries (PARTIAL), then the counts of pass one.

    With a grid, also figures by time step; with a grid of `steps`, also the tables of signals. `known` takes
    the names and addresses of what is dissected. With `beside`, another process makes tables and figures of
    exchanges, and there are two partials.
    """
    counts = [0] * len(Counts._fields)
    of_time = SOURCE_TABLES if grid is not None else ()
    of_steps = (*SIGNAL_SOURCES, *TCP_TABLES) if steps is not None else ()
    tables = TaskTables(splits, treatment, tuple(dict.fromkeys((*of_time, *of_steps))), as_arrays=True)
    step_ns = STEP_NS if steps is None else tcp_step(steps.steps * steps.step_ns)
    processor = new_table_processor(splits, treatment.keys, step_ns, reads_all=beside)
    paired = paired_batches(counting(batches, counts), processor, tables.wanted)
    count = partial(figures_of, grid=grid, steps=steps)
    if beside:
        yield _counted_beside(paired, tables, known, count)
        yield to_arrow(count(_taken(tables.connections(processor), known)), packed=True)
    else:
        every = chain(tables.exchanges(paired), tables.connections(processor))
        yield to_arrow(count(_taken(every, known)), packed=True)
    packed = pack_counts(Counts(*counts))
    yield pa.record_batch([pa.array([COUNTS_PART]), pa.array([packed], pa.binary())], schema=PARTIAL)


def figures_of(
    batches: Iterable[TableBatches], grid: Grid | None, steps: Grid | None, in_thread: bool = False
) -> Partial:
    """Return the partial summary of batches of tables; the grids are those of `summary_step`.

    With `in_thread`, figures are counted in a thread while the next tables are made, at the price of one more
    batch in memory.
    """
    figures = _Figures(grid, steps)
    together = coalesce_batches(batches)
    deque((mapped_beside if in_thread else map)(figures.add, together), maxlen=0)
    return figures.sum()


def _counted_beside(
    paired: Iterable[Paired], tables: TaskTables, known: KnownRows | None, count: Callable[..., Partial]
) -> pa.RecordBatch:
    """Return the figures of exchanges, counted in another process.

    `tables` learn what they told there, and `known` takes the names and addresses.
    """
    with ConsumerProcess(partial(_consumed, tables=tables, known=known, count=count)) as process:
        for batch, facts, _ in paired:
            for own in own_bytes(batch, HANDED_OVER):
                for part in carried_parts(own):
                    process.put(part, facts)
        figures, tables.learnt, found = process.result()
    if known is not None and found is not None:
        known.add(found)
    return figures


def _consumed(
    items: Iterator[tuple[tuple[ExchangeBatch, CarriedSides | None], EngineFacts]],
    tables: TaskTables,
    known: KnownRows | None,
    count: Callable[..., Partial],
) -> tuple[pa.RecordBatch, Learnt, KnownRows | None]:
    """Return the figures of exchanges, and what was learnt from these, in the other process."""
    paired = (Paired(batch, facts, messages) for (batch, messages), facts in items)
    counted = count(_taken(tables.exchanges(paired), known), in_thread=True)
    return to_arrow(counted, packed=True), tables.learnt, known


def _taken(batches: Iterable[TableBatches], known: KnownRows | None) -> Iterable[TableBatches]:
    return batches if known is None else known.taken_from(batches)


class _Figures:
    """Partials that are merged some at a time."""

    def __init__(self, grid: Grid | None, steps: Grid | None) -> None:
        self._grid, self._steps = grid, steps
        self._merged, self._pending, self._waiting = EMPTY, list[Partial](), 0

    def add(self, tables: TablesTogether) -> None:
        """Count a batch of tables."""
        counted = summarise(tables, self._grid, self._steps, packed=True)
        self._pending.append(counted)
        has_few = sum(rows.num_rows for rows in counted.tables.values()) < FEW_ROWS
        self._waiting += 1 if has_few else MERGED_AT
        if self._waiting >= MERGED_AT**2:
            self._merged = self.sum()

    def sum(self) -> Partial:
        """Return what was counted, and let go of it."""
        partials = deque([self._merged, *self._pending])
        self._merged, self._pending, self._waiting = EMPTY, [], 0
        return merge(partials.popleft() for _ in range(len(partials)))
