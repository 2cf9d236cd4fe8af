"""A broker that all followers left and that still takes writes; one that is left and refuses them is none."""

from pathlib import Path

import pytest

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.error_codes import ErrorCode
from tests.helpers.told_capture import Story
from tests.helpers.told_cluster import HOSTS, METADATA
from tests.helpers.told_groups import analyzed, produce

LEFT_MS = 15_000


def deserted(error: int, goes_on: bool = True) -> Story:
    """Brokers 1 and 3 stop to fetch from broker 2, to which a client goes on to write."""
    story = Story()
    for follower, leader in ((1, 2), (3, 2), (1, 3), (3, 1)):
        ends = HOSTS[follower - 1], (HOSTS[leader - 1], 9092)
        line = story.connect(*ends, client_id=f"broker-{follower}-fetcher-0")
        stops = LEFT_MS if leader == 2 or not goes_on else 30_000
        for at_ms in range(10 + follower, stops, 500):
            request = {"replica_id": follower, "max_wait_ms": 500, "min_bytes": 1, "topics": []}
            line.call(at_ms, 480, ApiKey.FETCH, 7, request, {"responses": []})
    for node in (1, 2, 3) if goes_on else (2,):
        line = story.connect("10.1.0.8", (HOSTS[node - 1], 9092), client_id="writer")
        line.call(1, 2, ApiKey.METADATA, 1, {"topics": None}, METADATA)
        for at_ms in range(50, 29_000, 300):
            refused = error if node == 2 and at_ms > LEFT_MS else 0
            produce(line, at_ms, partition=node, offset=at_ms, error=refused)
    return story


@pytest.mark.parametrize(
    ("error", "goes_on", "told"),
    [(0, True, True), (ErrorCode.NOT_LEADER_OR_FOLLOWER, True, False), (0, False, False)],
    ids=["takes writes", "refuses them", "its followers are gone"],
)
def test_a_broker_that_nobody_follows_any_more(error: int, goes_on: bool, told: bool, tmp_path: Path) -> None:
    summary = analyzed(deserted(error, goes_on), tmp_path)
    assert ("leader_deserted" in {one.kind for one in summary.signals}) is told
    assert ("broker_fenced" in {one.cause for one in summary.incidents}) is told
