"""How far each group has committed: in the capture, and on the target.

In: every commit that is sent, and whether the target took it. Out, when a pass has ended: for each group and
partition the offset that the last captured commit stands for, beside the last one that the target took. The
captured offset is translated anew, since more is known of the logs in the end.
"""

from dataclasses import dataclass
from typing import Any

from kdissect.replay.identifiers import TopicPartition
from kdissect.replay.target.offsets import Positions


@dataclass(slots=True)
class GroupCommit:
    """The last commits of a group in a partition."""

    captured_index: int = -1  # the captured request
    captured: int = -1  # its offset
    replayed_index: int = -1
    replayed: int | None = None  # the offset that the target took


class GroupCommits:
    """The commits of a pass. Names are those of the capture."""

    def __init__(self) -> None:
        self._commits: dict[tuple[str, TopicPartition], GroupCommit] = {}

    def note_captured(self, index: int, group: str, partition: TopicPartition, offset: int) -> None:
        """Note a commit that the captured cluster took."""
        commit = self._commits.setdefault((group, partition), GroupCommit())
        if index > commit.captured_index:
            commit.captured_index, commit.captured = index, offset

    def note_replayed(self, index: int, group: str, partition: TopicPartition, offset: int) -> None:
        """Note a commit that the target took."""
        commit = self._commits.setdefault((group, partition), GroupCommit())
        if index > commit.replayed_index:
            commit.replayed_index, commit.replayed = index, offset

    def summary(self, positions: Positions) -> list[dict[str, Any]]:
        """Return each group's last commits; `short` counts records that were not committed."""
        rows = []
        for (group, partition), commit in sorted(self._commits.items()):
            known = positions.partition(partition)
            expected = known.written(commit.captured) if commit.captured_index >= 0 else None
            short = 0
            if expected is not None:
                short = known.batches.target.records_between(commit.replayed or 0, expected)
            rows.append(
                {
                    "group": group,
                    "partition": f"{partition[0]}-{partition[1]}",
                    "captured": commit.captured,
                    "expected": expected,
                    "replayed": commit.replayed,
                    "short": short,
                }
            )
        return rows
