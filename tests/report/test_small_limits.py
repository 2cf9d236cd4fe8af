"""A report is made whatever its tables had to give up: what large captures do, with small limits here."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kdissect.report.build.page.page_data import make_page_data
from kdissect.report.partials import ALL_TABLES
from kdissect.report.timeline.timeline_tables import GROUP_STEPS
from tests.helpers.recorded import CAPTURES, analyzed
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
    usual, _, _ = analyzed(name)
    assert usual.totals.exchanges > 0 or name == "tls.pcapng"  # which cannot be read without its keys
    with limited(most):
        summary, partial, grid = analyzed.__wrapped__(name)  # made anew, and not kept
        assert partial.columns(GROUP_STEPS).rows <= most
        assert make_page_data(summary, partial, grid)
    assert summary.totals.exchanges == usual.totals.exchanges
    assert summary.totals.errors == usual.totals.errors
