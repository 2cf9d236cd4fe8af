"""Latency that rose: the same figures for any order of the rows, which is that in which tasks end."""

from pathlib import Path

import pytest

from kdissect.protocol.api_keys import ApiKey
from kdissect.report.build.build_report import build_report
from tests.helpers.told_capture import Story
from tests.helpers.told_cluster import METADATA, cluster
from tests.helpers.told_groups import analyzed, in_another_order, partial_of, produce

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


@pytest.mark.parametrize(("metadata_ms", "rises"), [(3, False), (60, True)])
def test_requests_that_begin_slowly_are_no_rise_of_those_before(
    metadata_ms: float, rises: bool, tmp_path: Path
) -> None:
    """Writing begins, slow at first, as it does at a server that has just started."""
    story = Story()
    asking, writing = (story.connect(client_id=name, at_ms=0) for name in ("asking", "writing"))
    for at_ms in range(100, 60_000, 200):
        took_ms = metadata_ms if 10_000 <= at_ms < 20_000 else 3
        asking.call(at_ms, took_ms, ApiKey.METADATA, 1, {"topics": None}, METADATA)
    for at_ms in range(10_000, 60_000, 90):
        produce(writing, at_ms, took_ms=80 if at_ms < 20_000 else 2, offset=at_ms)
    told = [one.sentence for one in analyzed(story, tmp_path).signals if one.kind == "latency_rose"]
    assert bool(told) == rises
    assert all(sentence.startswith("Metadata at ") for sentence in told)
