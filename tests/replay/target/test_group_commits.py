"""`replay.target.group_commits`: the last commits, and the records that they fall short by."""

from __future__ import annotations

from kdissect.replay.settings import Offsets
from kdissect.replay.target.group_commits import GroupCommits
from kdissect.replay.target.offsets import Positions
from tests.helpers.rewriting_cases import WHERE


def test_a_commit_that_falls_short_is_counted_in_records() -> None:
    positions, commits = Positions(Offsets.AUTO, {}), GroupCommits()
    positions.add_written(WHERE, 100, 10, 0)
    positions.add_written(WHERE, 111, 10, 11)  # 110 is a marker
    commits.note_captured(5, "audit", WHERE, 121)
    commits.note_captured(3, "audit", WHERE, 100)  # an earlier one
    commits.note_replayed(3, "audit", WHERE, 8)
    (row,) = commits.summary(positions)
    assert row == {
        "group": "audit",
        "partition": f"{WHERE[0]}-{WHERE[1]}",
        "captured": 121,
        "expected": 21,
        "replayed": 8,
        "short": 12,
    }
    commits.note_replayed(5, "audit", WHERE, 21)
    assert commits.summary(positions)[0]["short"] == 0
