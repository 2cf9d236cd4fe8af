"""A report is made whatever its tables had to give up: what large captures do, with small limits here."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kdissect.capture.segment_index import Counts
from kdissect.report.build.build_report import build_report
from kdissect.report.build.page.page_data import make_page_data
from kdissect.report.partials import ALL_TABLES, merge, summarise
from kdissect.report.timeline.grid import SIGNAL_STEPS, grid_over
from kdissect.report.timeline.timeline_tables import GROUP_STEPS
from kdissect.spark.capture_facts import capture_facts
from tests.helpers.recorded import CAPTURES, analyzed, dissected
from tests.helpers.tiers import thorough_after

LIMITED = [part for part in ALL_TABLES.values() if part.most]
NAMES = ("cluster-life.pcapng", "transactions.pcapng", "rebalances.pcapng", "broker-restart.pcapng")
OTHERS = sorted(path.name for path in CAPTURES.glob("*.pcap*") if path.name not in NAMES)


@contextmanager
def limited(most: int) -> Iterator[None]:
    """Limit tables that have a limit to fewer rows."""
    usual = [part.most for part in LIMITED]
    for part in LIMITED:
        object.__setattr__(part, "most", most)
    try:
        yield
    finally:
        for part, before in zip(LIMITED, usual, strict=True):
            object.__setattr__(part, "most", before)


@pytest.mark.slow
@pytest.mark.parametrize("most", [2, 30])
@pytest.mark.parametrize("name", thorough_after(len(NAMES), (*NAMES, *OTHERS)))
def test_there_is_a_report_and_a_page(name: str, most: int) -> None:
    usual, _, grid = analyzed(name)
    assert usual.totals.exchanges > 0 or name == "tls.pcapng"  # without its keys
    seen, batches = dissected(name)
    steps = grid_over(seen.earliest_time_ns, seen.latest_time_ns, SIGNAL_STEPS)
    with limited(most):
        partial = merge(summarise(batch, grid, steps) for batch in batches)
        assert partial.columns(GROUP_STEPS).rows <= most
        summary = build_report(partial, capture_facts(seen, Counts(packets=seen.packets)))
        assert make_page_data(summary, partial, grid)
    assert summary.totals.exchanges == usual.totals.exchanges
    assert summary.totals.errors == usual.totals.errors
