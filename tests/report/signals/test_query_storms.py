"""Clients that send queries in a loop, and what asks often for a reason."""

from pathlib import Path

import pytest

from kdissect.protocol.api_keys import ApiKey
from kdissect.report.model.incidents import Signal
from tests.helpers.told_capture import T0_MS, Story
from tests.helpers.told_groups import analyzed, background

REQUESTS = {
    ApiKey.DESCRIBE_CONFIGS: (1, {"resources": [], "include_synonyms": False}, {"results": []}),
    ApiKey.LIST_GROUPS: (2, {}, {"error_code": 0, "groups": []}),
}
BEGIN_MS = 10_000


def storms(tmp_path: Path, every_ms: int, count: int, client: str = "tool") -> list[Signal]:
    """Return the signals of a client that sends two kinds of queries in turn."""
    story = Story()
    background(story)
    line = story.connect("10.1.0.2", client_id=client, at_ms=BEGIN_MS - 100)
    for number in range(count):
        key = list(REQUESTS)[number % 2]
        version, request, response = REQUESTS[key]
        answer = {"throttle_time_ms": 0} | response
        line.call(BEGIN_MS + every_ms * number, 1, key, version, request, answer)
    return [one for one in analyzed(story, tmp_path).signals if one.kind == "queries_storm"]


def test_queries_of_several_kinds_are_one_storm_that_names_them(tmp_path: Path) -> None:
    (storm,) = storms(tmp_path, 25, 400)
    assert storm.subject.name == "tool at 10.1.0.2"
    assert abs(storm.begin_ns / 1e6 - T0_MS - BEGIN_MS) < 1_000
    assert "sent ListGroups 200 times and DescribeConfigs 200 times" in storm.sentence
    assert storm.sentence.endswith("40 queries a second")


@pytest.mark.parametrize(
    ("every_ms", "count", "client"),
    [(5, 200, "tool"), (100, 150, "tool"), (25, 400, "broker-1-fetcher-0")],
    ids=["a burst", "now and then", "a broker"],
)
def test_what_is_no_storm(every_ms: int, count: int, client: str, tmp_path: Path) -> None:
    assert storms(tmp_path, every_ms, count, client) == []
