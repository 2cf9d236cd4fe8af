"""What is reported although no cause is known, and what only looks like it."""

from pathlib import Path

import pytest

from kdissect.protocol.api_keys import ApiKey
from tests.helpers.told_cluster import cluster
from tests.helpers.told_groups import SESSION_MS, analyzed

LENGTH_MS = 30_000


@pytest.mark.parametrize(
    ("waited_ms", "found"), [(9_000, ["requests_unanswered"]), (1_500, [])], ids=["hangs", "just sent"]
)
def test_a_request_without_a_response_at_the_end(waited_ms: int, found: list[str], tmp_path: Path) -> None:
    story, _ = cluster(lambda node, at_ms: 3)
    admin = story.connect("10.1.0.9", ("10.0.0.2", 9092), client_id="admin")
    admin.call(100, 3, ApiKey.FIND_COORDINATOR, 1, {"key": "g"}, {"node_id": 1, "host": "10.0.0.1"})
    admin.ask(LENGTH_MS - waited_ms, ApiKey.DELETE_TOPICS, 1, {"topic_names": ["old"], "timeout_ms": 60_000})
    assert [one.cause for one in analyzed(story, tmp_path).incidents] == found


@pytest.mark.parametrize("api", [ApiKey.FETCH, ApiKey.JOIN_GROUP])
def test_requests_that_wait_by_design_are_not_unanswered(api: ApiKey, tmp_path: Path) -> None:
    story, _ = cluster(lambda node, at_ms: 3)
    waits = story.connect("10.1.0.9", ("10.0.0.2", 9092), client_id="waits")
    if api is ApiKey.FETCH:
        waits.ask(LENGTH_MS - 9_000, api, 7, {"max_wait_ms": 60_000, "min_bytes": 1, "topics": []})
    else:
        join = {"group_id": "readers", "session_timeout_ms": SESSION_MS, "rebalance_timeout_ms": 60_000}
        waits.ask(
            LENGTH_MS - 9_000, api, 5, join | {"member_id": "", "protocol_type": "consumer", "protocols": []}
        )
    assert analyzed(story, tmp_path).incidents == ()
