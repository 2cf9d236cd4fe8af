"""`replay.target.coordinators`, against a target on paper."""

from __future__ import annotations

from tests.helpers.paper_cluster import (
    ADD,
    Cluster,
    orders,
    transaction,
)
from tests.helpers.paper_target import MS, replay


def test_who_waits_long_for_a_coordinator_asks_seldom() -> None:
    done = replay(transaction(1), Cluster(key24=[*[51] * 30, 0]), target=orders())
    times = [time for time, _, _ in done.sent(ADD)]
    assert done.buckets() == {"answered": 5}
    assert len(times) == 31
    assert times[-1] - times[0] >= (5 + 10 + 20 + 40 + 26 * 50) * MS
