"""Writes to a topic that become slow, beside those to others."""

from pathlib import Path

import pytest

from kdissect.report.model.findings import Severity
from tests.helpers.told_capture import T0_MS, Story
from tests.helpers.told_groups import analyzed, produce

MOMENT_MS = 15_000
TOPICS = ("orders", "payments", "clicks")


def story_of(slow: dict[str, float], until_ms: int = 29_000) -> Story:
    """Return two writers of three topics, some of which take longer since a moment."""
    story = Story()
    for number in range(2):
        for topic in TOPICS:
            line = story.connect(f"10.1.0.{2 + number}", client_id=f"writer-{number}")
            for at_ms in range(100 + 7 * number, 29_000, 250):
                is_slow = MOMENT_MS <= at_ms < until_ms
                took_ms = slow.get(topic, 3) if is_slow else 3
                produce(line, at_ms, topic=topic, took_ms=took_ms + at_ms % 2)
    return story


def test_one_topic_that_is_slow_since_a_moment(tmp_path: Path) -> None:
    summary = analyzed(story_of({"payments": 60}), tmp_path)
    (signal,) = (one for one in summary.signals if one.kind == "topic_latency_rose")
    assert signal.subject.name == "payments"
    assert abs(signal.begin_ns / 1e6 - T0_MS - MOMENT_MS) < 1_000
    assert signal.end_ns is None
    assert signal.clients == ("writer-0 at 10.1.0.2", "writer-1 at 10.1.0.3")
    (incident,) = (one for one in summary.incidents if one.subject.name == "payments")
    assert (incident.cause, incident.severity) == ("latency_changed", Severity.NOTE)


@pytest.mark.parametrize(
    ("slow", "until_ms"),
    [
        (dict.fromkeys(TOPICS, 60.0), 29_000),
        ({"payments": 60.0}, MOMENT_MS + 2_000),
        ({"payments": 5.0}, 29_000),
    ],
    ids=["all topics", "for a moment", "by little"],
)
def test_no_topic_of_its_own(slow: dict[str, float], until_ms: int, tmp_path: Path) -> None:
    kinds = {one.kind for one in analyzed(story_of(slow, until_ms), tmp_path).signals}
    assert "topic_latency_rose" not in kinds
