"""Fetches that bring little: limited by their size, or since no more is there."""

from pathlib import Path

import pytest

from kdissect.report.model.incidents import Signal
from tests.helpers.told_capture import Story
from tests.helpers.told_groups import analyzed, fetch, produce


def small_fetches(story: Story, tmp_path: Path) -> list[Signal]:
    return [one for one in analyzed(story, tmp_path).signals if one.kind == "fetches_small"]


@pytest.mark.parametrize(("times", "told"), [(60, 1), (40, 0)])
def test_fetches_that_bring_two_records_of_many_are_small(times: int, told: int, tmp_path: Path) -> None:
    story = Story()
    reader = story.connect("10.1.0.2", client_id="reader")
    for number in range(times):
        fetch(reader, 100 + 50 * number, 2 * number, 1000, records=2)
    found = small_fetches(story, tmp_path)
    assert len(found) == told
    for signal in found:
        assert signal.subject.name == "reader at 10.1.0.2"
        assert signal.topics == ("orders",)
        assert (signal.measures["count"], signal.measures["records"]) == (60, 120)
        assert 870 <= signal.measures["left_at_end"] <= signal.measures["left"] <= 998
        assert "gets 2.0 records" in signal.sentence


def test_a_reader_that_keeps_up_gets_what_there_is(tmp_path: Path) -> None:
    story = Story()
    reader = story.connect("10.1.0.2", client_id="reader")
    for number in range(200):
        fetch(reader, 100 + 50 * number, 2 * number, 2 * number + 2, records=2)
    assert small_fetches(story, tmp_path) == []


def test_a_reader_that_catches_up_in_large_fetches_is_not_limited(tmp_path: Path) -> None:
    """Each fetch brings 40 KiB, though far more is there."""
    story = Story()
    reader = story.connect("10.1.0.2", client_id="reader")
    for number in range(60):
        fetch(reader, 100 + 50 * number, 6_000 * number, 1_000_000, records=6_000)
    assert small_fetches(story, tmp_path) == []


def test_small_fetches_end_when_the_reader_has_caught_up(tmp_path: Path) -> None:
    story = Story()
    writer = story.connect("10.1.0.9", client_id="writer")
    reader = story.connect("10.1.0.2", client_id="reader")
    for number in range(400):
        fetch(reader, 100 + 40 * number, 2 * number, max(160, 2 * number + 2), records=2)
    produce(writer, 20_000)
    (signal,) = small_fetches(story, tmp_path)
    assert signal.end_ns is not None
    assert 2 * 10**9 <= signal.end_ns - signal.begin_ns <= 4 * 10**9
    assert signal.measures["left_at_end"] == 0
