"""Lag of recorded groups over time."""

from tests.helpers import recorded


def test_lag_ends_where_the_consumers_read_everything():
    """96 jobs were written and every group read all of them before it ended."""
    groups = recorded.data("rebalances.pcapng")["groups"]["rows"]
    for group in groups:
        (jobs,) = (topic for topic in group["lag"] if topic["topic"] == "jobs")
        assert sum(row["end"] for row in jobs["partitions"]) == 96
        for row in jobs["partitions"]:
            assert row["committed_lag"] == row["end"] - row["committed"] >= 0
        assert max(value for value in jobs["committed"] if value is not None) > 0
        assert jobs["committed"][-1] == sum(row["committed_lag"] for row in jobs["partitions"])
    assert [group["name"] for group in groups if group["lag"][0]["committed"][-1]] == []
