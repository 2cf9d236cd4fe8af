"""Lag over time: how far behind the end of each partition a group has committed and fetched.

Offsets are known at single times: a commit shows where a group is, a Fetch where its client is and, in its
response, the end of the log; a Produce response shows the end, too. In between the last known offset holds. A
partition has no lag, not even zero, before both are known.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from kdissect.report.build.page.group_panel import clients_of, group_of_client
from kdissect.report.build.page.page_names import (
    PageNames,
    Plain,
    sorted_columns,
)
from kdissect.report.timeline.grid import Grid
from kdissect.report.timeline.timeline_tables import POSITIONS

MOST_TOPICS, MOST_PARTITIONS = 12, 60

Key = tuple[str, int]  # topic, partition
UNKNOWN = -1


class PositionSeries:
    """The last known offset at each step."""

    def __init__(self, steps: int) -> None:
        self.values = np.full(steps, UNKNOWN, np.int64)
        self.last_ns = UNKNOWN
        self.ref: int | None = None

    def take(self, step: int, offset: int, time_ns: int, ref: int | None, *, highest: bool = False) -> None:
        """Add an offset; of several in one step the highest counts, or the latest, which must come last."""
        self.values[step] = max(self.values[step], offset) if highest else offset
        if time_ns >= self.last_ns:
            self.last_ns, self.ref = time_ns, ref

    def held(self) -> np.ndarray:
        """Return the offset at every step, where the last known one holds; -1 before the first."""
        at = np.maximum.accumulate(np.where(self.values >= 0, np.arange(len(self.values)), -1))
        return np.where(at >= 0, self.values[np.maximum(at, 0)], UNKNOWN)


def lag_by_group(names: PageNames, grid: Grid) -> dict[str, list[Plain]]:
    """Return the lag of each group by topic: for each step, records not committed and records not fetched."""
    ends: dict[Key, PositionSeries] = {}
    reached: dict[tuple[str, str], dict[Key, PositionSeries]] = {}
    group_of = group_of_client(clients_of(names))
    rows = sorted_columns(names.partial, POSITIONS).dicts()
    for row in sorted(rows, key=lambda row: -row["order_ns"]):
        topic = names.topic(row["topic"], row["topic_id"])
        if topic is None or row["partition"] is None:
            continue
        key, time_ns, ref = (topic, row["partition"]), -row["order_ns"], names.row_ref(row)
        if row["end_offset"] is not None:
            ends.setdefault(key, PositionSeries(grid.steps)).take(
                row["step"], row["end_offset"], time_ns, ref, highest=True
            )
        if row["kind"] == "written":
            continue
        group = _group(names, row, group_of)
        if group is not None:
            of = reached.setdefault((group, row["kind"]), {})
            of.setdefault(key, PositionSeries(grid.steps)).take(row["step"], row["offset"], time_ns, ref)
    return {
        group: _topics(ends, reached.get((group, "committed"), {}), reached.get((group, "fetched"), {}), grid)
        for group in {group for group, _ in reached}
    }


def _group(names: PageNames, row: Mapping[str, Any], group_of: Mapping[int, str]) -> str | None:
    if row["kind"] == "fetched":
        return group_of.get(names.client(row["client_id"], row["client_host"]))
    result: str | None = row["group_id"]
    return result


def _topics(
    ends: Mapping[Key, PositionSeries],
    committed: Mapping[Key, PositionSeries],
    fetched: Mapping[Key, PositionSeries],
    grid: Grid,
) -> list[Plain]:
    of_topic: dict[str, list[tuple[str, int, PositionSeries]]] = {}
    for name, courses in (("committed", committed), ("fetched", fetched)):
        for (topic, partition), course in courses.items():
            of_topic.setdefault(topic, []).append((name, partition, course))
    result = [_topic(topic, ends, rows, grid) for topic, rows in sorted(of_topic.items())]
    result.sort(key=lambda item: -item[0])
    return [one for _, one in result[:MOST_TOPICS]]


def _topic(
    topic: str,
    ends: Mapping[Key, PositionSeries],
    courses: Iterable[tuple[str, int, PositionSeries]],
    grid: Grid,
) -> tuple[int, Plain]:
    """Return the highest lag on a topic, and the lag at each step."""
    totals = {name: np.full(grid.steps, UNKNOWN) for name in ("committed", "fetched")}
    partitions: dict[int, Plain] = {}
    for name, partition, course in courses:
        end = ends.get((topic, partition))
        if end is None:
            continue
        reached, until = course.held(), end.held()
        there = (reached >= 0) & (until >= 0)
        behind = np.where(there, np.maximum(until - reached, 0), 0)
        totals[name] = np.where(there, np.maximum(totals[name], 0) + behind, totals[name])
        row = partitions.setdefault(
            partition, {"partition": partition, "end": int(until[-1]), "end_ref": end.ref}
        )
        row |= {name: int(reached[-1]), f"{name}_ref": course.ref, f"{name}_lag": int(behind[-1])}
    rows = sorted(partitions.values(), key=_furthest_behind)
    listed = {
        name: [None if value < 0 else value for value in values.tolist()] for name, values in totals.items()
    }
    omitted = max(len(rows) - MOST_PARTITIONS, 0)
    one = {"topic": topic, "partitions": rows[:MOST_PARTITIONS], "partitions_omitted": omitted}
    return max(int(values.max()) for values in totals.values()), one | listed


def _furthest_behind(row: Plain) -> tuple[int, int]:
    behind: int = row["committed_lag"] if "committed_lag" in row else row["fetched_lag"]
    return -behind, row["partition"]
