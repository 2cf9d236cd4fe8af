"""Positions as signals: offsets that are asked again, lag of fetches and of commits."""

from pathlib import Path

from kdissect.protocol.api_keys import ApiKey
from tests.helpers.told_capture import Story
from tests.helpers.told_groups import analyzed, fetch, produce


def commit(line, at_ms, offset):
    """Commit an offset of partition 0 of orders for the group readers."""
    topics = [{"name": "orders", "partitions": [{"partition_index": 0, "committed_offset": offset}]}]
    found = [{"name": "orders", "partitions": [{"partition_index": 0}]}]
    request = {"group_id": "readers", "generation_id_or_member_epoch": 1, "member_id": "m", "topics": topics}
    line.call(at_ms, 1, ApiKey.OFFSET_COMMIT, 2, request, {"topics": found})


def test_commits_that_fall_behind_are_a_lag_though_fetches_run_ahead(tmp_path: Path) -> None:
    story = Story()
    writer = story.connect("10.1.0.9", client_id="writer")
    reader = story.connect("10.1.0.2", client_id="reader")
    for number in range(40):
        produce(writer, 100 + 500 * number, count=50, offset=50 * number)
        fetch(reader, 200 + 500 * number, 50 * number, 50 * (number + 1), records=50)
        commit(reader, 300 + 500 * number, 10 * number)
    (signal,) = (one for one in analyzed(story, tmp_path).signals if one.kind == "lag_grew")
    assert signal.groups == ("readers",)
    assert signal.measures["after"] == 40 * 50 - 39 * 10
    assert "processes topic orders" in signal.sentence
    assert 79 <= signal.measures["per_second"] <= 81
