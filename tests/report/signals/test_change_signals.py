"""Latency that rose: the same figures for any order of the rows, which is that in which tasks end."""

from pathlib import Path

from kdissect.report.build.build_report import build_report
from tests.helpers.told_cluster import cluster
from tests.helpers.told_groups import in_another_order, partial_of

MOMENT_MS = 15_000


def took_ms(node: int, at_ms: float) -> float:
    """Return latencies of many levels, those of one broker longer since a moment."""
    if node == 2 and at_ms > MOMENT_MS:
        return 40 * 1.3 ** (at_ms // 10 % 7)
    return 3 * 1.1 ** (at_ms // 10 % 9)


def test_the_order_of_rows_changes_nothing(tmp_path: Path) -> None:
    story, _ = cluster(took_ms)
    partial, facts = partial_of(story, tmp_path)
    signals = build_report(partial, facts).signals
    assert {"latency_rose", "client_latency_rose"} <= {one.kind for one in signals}
    for seed in range(8):
        assert build_report(in_another_order(partial, seed), facts).signals == signals
