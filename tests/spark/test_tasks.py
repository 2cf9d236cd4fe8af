"""Work of Spark's workers, without Spark: descriptors by partition, joined batches, names and counts."""

import numpy as np
import pyarrow as pa
import pytest

from kdissect.capture.index.index import index_captures
from kdissect.capture.inputs import open_inputs
from kdissect.capture.segment_index import PIECES, Counts, pack_counts
from kdissect.report.partials import from_arrow, merge, summarise
from kdissect.report.timeline.count import SOURCE_TABLES
from kdissect.report.timeline.grid import MAX_STEPS, SIGNAL_STEPS, Grid, grid_over
from kdissect.report.timeline.signal_tables import SIGNAL_TABLES
from kdissect.spark import tasks
from kdissect.tables.schemas import BROKERS, NAMES
from tests.helpers.recorded import CAPTURES


def descriptors(*buckets: int) -> pa.RecordBatch:
    rows = [
        dict.fromkeys(PIECES.names, 0)
        | {"bucket": bucket, "piece": number, "a_host": bytes(16), "b_host": bytes(16), "segments": b""}
        for number, bucket in enumerate(buckets)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=PIECES)


def test_descriptors_go_to_the_partition_of_their_bucket_in_order() -> None:
    of_bucket = np.array([1, 0, 1], dtype=np.int16)
    parts = dict(tasks.split_by_partition(descriptors(0, 1, 2, 1), of_bucket))
    assert {number: rows["piece"].to_pylist() for number, rows in parts.items()} == {0: [1, 3], 1: [0, 2]}


def test_an_id_with_several_names_has_the_first_one() -> None:
    assert tasks.topic_names([("id", "b"), ("id", "a"), ("other", "c")]) == {"id": "a", "other": "c"}


def test_topics_are_filled_in_where_there_is_only_an_id() -> None:
    rows = pa.record_batch({"topic": [None, "kept", None], "topic_id": ["1", "1", "2"]})
    assert tasks.with_topics(rows, {"1": "named"})["topic"].to_pylist() == ["named", "kept", None]


def test_counts_are_summed_and_separated_from_figures() -> None:
    def row(part: str, rows: bytes) -> pa.RecordBatch:
        return pa.record_batch([pa.array([part]), pa.array([rows], pa.binary())], names=["part", "rows"])

    counts = row(tasks.COUNTS_PART, pack_counts(Counts(packets=2, tcp=1)))
    figures = row("figures", b"")
    assert tasks.sum_counts([counts, figures, counts]) == Counts(packets=4, tcp=2)
    assert tasks.partials_only([counts, figures, counts]) == [figures]


def test_filters_learn_topics_and_nodes_from_all_tasks() -> None:
    names = pa.RecordBatch.from_pylist([{"topic_id": "1", "topic": "orders"}], schema=NAMES)
    brokers = pa.RecordBatch.from_pylist(
        [{"node_id": 1, "host": host, "port": 9092} for host in ("a", "b")], schema=BROKERS
    )
    known = tasks.collect_known([("names", names), ("brokers", brokers)])
    assert known.topics == {"1": "orders"}
    assert known.nodes == {1: frozenset({("a", 9092), ("b", 9092)})}


@pytest.mark.parametrize("name", ["refusals.pcapng", "old-broker.pcap", "neglect.pcapng"])
def test_figures_of_arrays_are_those_of_columns_of_arrow(name: str) -> None:
    seen = index_captures(open_inputs([str(CAPTURES / name)], "").files)
    ordinals = [pa.record_batch({"split": [split.index for split in seen.splits]})]
    pieces = list(tasks.scan_step(ordinals, seen.splits, ()))
    grids = [
        grid_over(seen.earliest_time_ns, seen.latest_time_ns, most) for most in (MAX_STEPS, SIGNAL_STEPS)
    ]

    def figures(*, as_arrays: bool) -> dict[str, list[str]]:
        tables = tasks.build_tables(pieces, seen.splits, tasks.DEFAULT, SOURCE_TABLES, as_arrays=as_arrays)
        total = merge(summarise(batch, *grids) for batch in tables)
        return {part: sorted(map(repr, rows.to_pylist())) for part, rows in total.tables.items()}

    assert figures(as_arrays=True) == figures(as_arrays=False)


def test_signals_are_the_same_with_the_figures_of_a_page_and_without() -> None:
    """A report with a page names leaders that moved, too."""
    seen = index_captures(open_inputs([str(CAPTURES / "broker-restart.pcapng")], "").files)
    ordinals = [pa.record_batch({"split": [split.index for split in seen.splits]})]
    pieces = list(tasks.scan_step(ordinals, seen.splits, ()))
    page, steps = (
        grid_over(seen.earliest_time_ns, seen.latest_time_ns, most) for most in (MAX_STEPS, SIGNAL_STEPS)
    )

    def signal_tables(grid: Grid | None, *, beside: bool = False) -> dict[str, list[str]]:
        figures, _ = tasks.summary_step(pieces, seen.splits, grid=grid, steps=steps, beside=beside)
        total = from_arrow([figures])
        return {
            name: sorted(map(repr, total.table(part).to_pylist())) for name, part in SIGNAL_TABLES.items()
        }

    with_page = signal_tables(page)
    assert with_page == signal_tables(None) == signal_tables(None, beside=True)
    assert with_page["replica_states"]
