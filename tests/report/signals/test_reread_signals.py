"""A group that never commits is told from the second start on, with what its members read again."""

from pathlib import Path

from tests.helpers.told_capture import T0_MS, Story
from tests.helpers.told_groups import analyzed, background
from tests.report.incidents.test_group_causes import reads_anew


def test_what_is_read_again_and_since_when(tmp_path: Path) -> None:
    story = Story()
    background(story)
    reads_anew(story)
    (found,) = (one for one in analyzed(story, tmp_path).signals if one.kind == "offsets_uncommitted")
    assert found.subject.name == "readers"
    assert found.measures == {"starts": 3, "records": 400}
    assert abs(found.begin_ns / 1e6 - T0_MS - 10_000) < 500
