"""Counts of several processes, added up."""

from kdissect.replay.net.pool_counters import PoolCounters


def test_counts_of_two_processes_are_added() -> None:
    counts = PoolCounters({"Metadata": 2}, opened=3, refused=1, closed_by_peer=1, throttled=1, throttle_ms=20)
    counts.add_synthetic("Metadata")
    counts.add(
        PoolCounters({"Metadata": 1, "ApiVersions": 4}, opened=2, refused=2, throttled=1, throttle_ms=5)
    )
    assert counts.synthetic == {"Metadata": 4, "ApiVersions": 4}
    assert (counts.opened, counts.refused, counts.closed_by_peer) == (5, 3, 1)
    assert (counts.throttled, counts.throttle_ms) == (2, 25)
