"""The tables of one task: figures of arrays and of Arrow, filters, and names."""

import pyarrow as pa
import pytest

from kdissect.capture.index.index import index_captures
from kdissect.capture.inputs import open_inputs
from kdissect.report.partials import merge, summarise
from kdissect.report.timeline.count import SOURCE_TABLES
from kdissect.report.timeline.grid import MAX_STEPS, SIGNAL_STEPS, grid_over
from kdissect.spark.task_tables import DEFAULT, TableOptions, TaskTables, build_tables
from kdissect.streams.tls.keylog import NO_KEYS
from kdissect.tables.build import new_table_processor, paired_batches
from kdissect.tables.filters import Filter
from tests.helpers.in_batches import pieces_of
from tests.helpers.recorded import CAPTURES


@pytest.mark.parametrize("name", ["refusals.pcapng", "old-broker.pcap", "neglect.pcapng"])
def test_figures_of_arrays_are_those_of_columns_of_arrow(name: str) -> None:
    seen = index_captures(open_inputs([str(CAPTURES / name)], "").files)
    pieces = pieces_of(seen.splits)
    grids = [
        grid_over(seen.earliest_time_ns, seen.latest_time_ns, most) for most in (MAX_STEPS, SIGNAL_STEPS)
    ]

    def figures(*, as_arrays: bool) -> dict[str, list[str]]:
        tables = build_tables(pieces, seen.splits, DEFAULT, SOURCE_TABLES, as_arrays=as_arrays)
        total = merge(summarise(batch, *grids) for batch in tables)
        return {part: sorted(map(repr, rows.to_pylist())) for part, rows in total.tables.items()}

    assert figures(as_arrays=True) == figures(as_arrays=False)


def test_connections_are_those_of_the_exchanges_that_a_filter_selects() -> None:
    """Tables that have learnt what others made of the exchanges select the same connections."""
    splits = index_captures(open_inputs([str(CAPTURES / "broker-restart.pcapng")], "").files).splits
    treatment = TableOptions(Filter(apis=frozenset({1})))
    processor = new_table_processor(splits, NO_KEYS)
    first, second = (TaskTables(splits, treatment) for _ in range(2))
    exchanges = sum(
        tables["exchanges"].num_rows
        for tables in first.exchanges(paired_batches(pieces_of(splits), processor, first.wanted))
    )
    second.learnt = first.learnt

    def connections(tables: TaskTables) -> pa.Table:
        found = [rows for batch in tables.connections(processor) for rows in [batch.get("connections")]]
        return pa.Table.from_batches([rows for rows in found if isinstance(rows, pa.RecordBatch)])

    assert exchanges
    assert 0 < connections(first).num_rows < len(processor.endpoints)
    assert connections(second).equals(connections(first))
