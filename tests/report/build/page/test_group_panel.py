"""Rebalances of recorded groups, as the lab made them."""

from tests.helpers import recorded


def test_rebalances_as_they_were_made():
    """The scenario.

    Each group's members join one by one, one leaves and comes back as another, one is killed (see the
    manifest).
    """
    groups = {row["name"]: row for row in recorded.data("rebalances.pcapng")["groups"]["rows"]}
    for name in ("cooperative-java", "eager-python", "eager-aio", "eager-rdkafka"):
        group = groups[name]
        assert group["kind"] == "classic"
        assert [one["generation"] for one in group["rebalances"]] == list(
            range(1, len(group["rebalances"]) + 1)
        )
        assert len(group["members"]) == 4
        ends = [member["end"] for member in group["members"]]
        assert ends.count("gone") == 1  # the one that was killed
        assert ends.count("left") == 3
        gone = next(member for member in group["members"] if member["end"] == "gone")
        assert any(gone["id"] in one["gone"] for one in group["rebalances"])
        for one in group["rebalances"]:
            assert one["complete"]
            assert 0 < one["end"] - one["start"] < 3 * 10**9
    for name in ("new-java", "new-rdkafka"):
        assert groups[name]["kind"] == "consumer (KIP-848)"
        assert len(groups[name]["members"]) == 4
        assert [member["end"] for member in groups[name]["members"]].count("gone") == 1
