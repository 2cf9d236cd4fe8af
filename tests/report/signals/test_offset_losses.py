"""A group whose committed offsets are gone is no new group, no reset, and no aborted transaction."""

from pathlib import Path

import pytest

from kdissect.protocol.api_keys import ApiKey
from kdissect.report.model.incidents import Signal
from tests.helpers.told_capture import T0_MS, Story
from tests.helpers.told_groups import analyzed, background
from tests.helpers.told_offsets import commit, life


def losses(story: Story, tmp_path: Path) -> list[Signal]:
    background(story)
    return [one for one in analyzed(story, tmp_path).signals if one.kind == "offsets_lost"]


def test_what_was_committed_and_what_is_read_again(tmp_path: Path) -> None:
    story = Story()
    life(story, 1_000, -1, 100)
    life(story, 10_000, -1, 100)
    (found,) = losses(story, tmp_path)
    assert (found.subject.name, found.topics, found.clients) == (
        "readers",
        ("orders",),
        ("again at 10.1.0.2",),
    )
    assert found.measures == {"partitions": 1, "again": 350, "skipped": 0}
    assert abs(found.begin_ns / 1e6 - T0_MS - 9_950) < 10
    assert "has lost its offsets of 1 partition of topic orders" in found.sentence
    assert found.sentence.endswith("350 records are read once more")


def test_what_is_left_out(tmp_path: Path) -> None:
    story = Story()
    life(story, 1_000, 100, 100)
    life(story, 10_000, -1, 900)
    (found,) = losses(story, tmp_path)
    assert found.measures["skipped"] == 450
    assert found.sentence.endswith("450 records are left out")


def test_one_record_is_left_out(tmp_path: Path) -> None:
    story = Story()
    life(story, 1_000, 100, 100)
    life(story, 10_000, -1, 451)
    (found,) = losses(story, tmp_path)
    assert found.sentence.endswith("1 record is left out")


@pytest.mark.parametrize("known", [450, 100], ids=["goes on", "was set back"])
def test_a_group_that_has_an_offset(known: int, tmp_path: Path) -> None:
    story = Story()
    life(story, 1_000, -1, 100)
    life(story, 10_000, known, known)
    assert losses(story, tmp_path) == []


def test_a_group_that_has_not_committed(tmp_path: Path) -> None:
    story = Story()
    life(story, 1_000, -1, 100, commits=False)
    life(story, 10_000, -1, 100)
    assert losses(story, tmp_path) == []


def test_offsets_of_a_transaction_that_was_aborted(tmp_path: Path) -> None:
    story = Story()
    line = life(story, 1_000, -1, 100, commits=False)
    commit(line, 5_000, 300, ApiKey.TXN_OFFSET_COMMIT)
    life(story, 10_000, -1, 100)
    assert losses(story, tmp_path) == []
