"""Positions as signals: offsets that are asked again, lag of fetches and of commits, software."""

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


def test_software_that_goes_back_and_forth_is_no_change(tmp_path: Path) -> None:
    story = Story()
    for number in range(6):
        line = story.connect("10.1.0.2", client_id=f"app-{number}", at_ms=5_000 * number)
        request = {"client_software_name": "app", "client_software_version": f"1.{number % 2}"}
        line.call(5_001 + 5_000 * number, 1, ApiKey.API_VERSIONS, 3, request, {"api_keys": []})
        produce(line, 5_100 + 5_000 * number)
    changed = [one for one in analyzed(story, tmp_path).signals if one.kind == "software_changed"]
    assert len(changed) <= 1
