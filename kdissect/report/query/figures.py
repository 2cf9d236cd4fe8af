"""Figures of any set of exchanges: counts and latencies, by whatever columns calls are grouped by.

`GroupFigures` holds the figures of all groups as arrays, so a capture with a hundred thousand clients costs
no more than its rows. `of` makes the value of one group when it is needed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kdissect.array_types import Bools, Int64s
from kdissect.report.aggregate.confidence import confidence_ranks
from kdissect.report.aggregate.group_sums import sum_by_group
from kdissect.report.aggregate.grouping import RowGroups, TableColumns
from kdissect.report.aggregate.histogram import (
    Histograms,
    add_up,
    bounds_at_ranks,
    bucket_of,
    middle,
    percentiles,
    variance,
)
from kdissect.report.aggregate.partial_tables import CALLS
from kdissect.report.model.call_figures import HISTOGRAM_EDGES_NS, Figures, Latency

PER_MILLE = (500, 900, 990, 999)
STATUSES = ("answered", "no_response_expected", "unanswered", "orphan_response")
SUMS = (
    "error_responses",
    "errors",
    "faults",
    "request_bytes",
    "response_bytes",
    "throttled",
    "throttle_ms",
    "pipelined",
    "acks_none",
    "acks_leader",
    "acks_all",
    "transfer_ns",
    "untimed",
)
"""Sums of calls that are figures under the same name."""

ABSENT_LOW, ABSENT_HIGH = np.iinfo(np.int64).max, np.iinfo(np.int64).min


@dataclass(frozen=True, slots=True)
class Latencies:
    """Latencies by group in nanoseconds: one entry for each group in each array, one row in `cells`."""

    count: Int64s
    total: Int64s
    lowest: Int64s
    highest: Int64s
    percentiles: list[Int64s]
    spread: npt.NDArray[np.float64]
    cells: Int64s
    buckets: Histograms

    def of(self, group: int) -> Latency | None:
        """Return the latencies of one group, None if it has none."""
        count, total = int(self.count[group]), int(self.total[group])
        if not count:
            return None
        low, high = int(self.lowest[group]), int(self.highest[group])
        p50, p90, p99, p99_9 = (min(max(int(values[group]), low), high) for values in self.percentiles)
        mean = total / count

        def between(per_mille: int) -> tuple[int, int] | None:
            ranks = confidence_ranks(count, per_mille)
            if ranks is None:
                return None
            lower, upper = bounds_at_ranks(self.buckets, group, ranks)
            return max(lower, low), min(upper, high)

        return Latency(
            count=count,
            sum_ns=total,
            mean_ns=round(mean),
            min_ns=low,
            p50_ns=p50,
            p90_ns=p90,
            p99_ns=p99,
            p99_9_ns=p99_9,
            max_ns=high,
            variance_to_mean_ns=round(float(self.spread[group]) / mean) if mean else 0,
            p50_between_ns=between(500),
            p90_between_ns=between(900),
            p99_between_ns=between(990),
            histogram=tuple(self.cells[group].tolist()),
        )


def collect_latencies(groups: int, buckets: Histograms, of: Int64s, counts: Sequence[Int64s]) -> Latencies:
    """Return the latencies of `groups` groups, from rows of groups `of` and the buckets of the same groups.

    `counts` are (count, sum, lowest, highest), each an array by row.
    """
    count, total, low, high = counts
    counts_by_group, totals = np.zeros(groups, np.int64), np.zeros(groups, np.int64)
    np.add.at(counts_by_group, of, count)
    np.add.at(totals, of, total)
    lowest, highest = np.full(groups, ABSENT_LOW), np.full(groups, ABSENT_HIGH)
    np.minimum.at(lowest, of, low)
    np.maximum.at(highest, of, high)
    cell = np.searchsorted(np.array(HISTOGRAM_EDGES_NS), middle(buckets.bucket), side="right")
    cells = np.zeros((groups, len(HISTOGRAM_EDGES_NS) + 1), np.int64)
    np.add.at(cells, (buckets.group, cell), buckets.count)
    values, spread = percentiles(buckets, groups, PER_MILLE), variance(buckets, groups)
    return Latencies(counts_by_group, totals, lowest, highest, values, spread, cells, buckets)


class LatencyGroups(NamedTuple):
    """The group of each row of calls, the group of each row of their latencies, and the number of groups."""

    calls: Int64s
    latencies: Int64s
    groups: int


def latencies_of_calls(
    calls: TableColumns, latencies: TableColumns, by_group: LatencyGroups, *, idle: bool
) -> Latencies:
    """Return the latencies by group: of calls that are idle waits, or of the others."""
    rows = (calls.bools("idle_wait") == idle) & (calls.ints("timed") > 0)
    buckets = latencies.bools("idle_wait") == idle
    counts = [calls.ints(name)[rows] for name in ("timed", "latency_ns", "latency_min_ns", "latency_max_ns")]
    histograms = add_up(
        by_group.latencies[buckets], latencies.ints("bucket")[buckets], latencies.ints("count")[buckets]
    )
    return collect_latencies(by_group.groups, histograms, by_group.calls[rows], counts)


def exact_latencies(values: Int64s) -> Latencies:
    """Return the latencies of one group from single values, with the same buckets."""
    group = np.zeros(len(values), np.int64)
    ones = group + 1
    return collect_latencies(1, add_up(group, bucket_of(values), ones), group, (ones, values, values, values))


class ConnectionFlags(NamedTuple):
    """For each row of calls: is its connection lossy (bytes are missing), and was it closed."""

    lossy: Bools
    closed: Bools


class GroupFigures(NamedTuple):
    """Figures of all groups: arrays with one entry for each group, by name."""

    groups: int
    sums: dict[str, Int64s]
    extremes: dict[str, Int64s]
    by_status: dict[str, Int64s]
    doubtful: Int64s
    unanswered: dict[str, Int64s]
    service: Latencies
    idle: Latencies
    service_total_ns: int

    def of(self, group: int) -> Figures:
        """Return the figures of one group."""

        def extreme(name: str) -> int | None:
            value = int(self.extremes[name][group])
            return None if value in (ABSENT_LOW, ABSENT_HIGH) else value

        return Figures(
            exchanges=int(self.sums["exchanges"][group]),
            answered=int(self.by_status["answered"][group]),
            no_response_expected=int(self.by_status["no_response_expected"][group]),
            unanswered=int(self.by_status["unanswered"][group]),
            unanswered_closed=int(self.unanswered["closed"][group]),
            unanswered_open=int(self.unanswered["open"][group]),
            unanswered_lossy=int(self.unanswered["lossy"][group]),
            orphan_responses=int(self.by_status["orphan_response"][group]),
            throttle_max_ms=extreme("throttle_max_ms") or 0,
            in_flight_max=extreme("in_flight_max") or 0,
            transfer_max_ns=extreme("transfer_max_ns") or 0,
            doubtful=int(self.doubtful[group]),
            first_time_ns=extreme("first_ns"),
            last_time_ns=extreme("last_ns"),
            time_share=round(int(self.service.total[group]) / max(self.service_total_ns, 1), 6),
            service=self.service.of(group),
            idle=self.idle.of(group),
            **{name: int(self.sums[name][group]) for name in SUMS},
        )

    def order(self) -> list[int]:
        """Return the groups, most service time first, then most exchanges."""
        order = np.lexsort((np.arange(self.groups), -self.sums["exchanges"], -self.service.total))
        return [int(group) for group in order]


def group_figures(
    calls: TableColumns,
    latencies: TableColumns,
    flags: ConnectionFlags,
    groups: RowGroups,
    latency_groups: Int64s,
) -> GroupFigures:
    """Return the figures of calls in `groups`; `latency_groups` are the same groups, by row of latencies."""
    by_group = LatencyGroups(groups.of, latency_groups, groups.count)
    status = {name: calls.equals("status", name) for name in STATUSES}
    exchanges, idle = calls.ints("exchanges"), calls.bools("idle_wait")
    unanswered = np.where(status["unanswered"], exchanges, 0)
    extremes = {}
    for names, start, pick in (
        (CALLS.lowest, ABSENT_LOW, np.minimum),
        (CALLS.highest, ABSENT_HIGH, np.maximum),
    ):
        for name in names:
            extremes[name] = np.full(groups.count, start)
            present = calls.present(name)
            pick.at(extremes[name], groups.of[present], calls.ints(name)[present])
    return GroupFigures(
        groups=groups.count,
        sums={name: sum_by_group(groups, calls.ints(name)) for name in CALLS.sums},
        extremes=extremes,
        by_status={name: sum_by_group(groups, np.where(mask, exchanges, 0)) for name, mask in status.items()},
        doubtful=sum_by_group(groups, np.where(flags.lossy, exchanges, 0)),
        unanswered={
            "lossy": sum_by_group(groups, np.where(flags.lossy, unanswered, 0)),
            "closed": sum_by_group(groups, np.where(~flags.lossy & flags.closed, unanswered, 0)),
            "open": sum_by_group(groups, np.where(~flags.lossy & ~flags.closed, unanswered, 0)),
        },
        service=latencies_of_calls(calls, latencies, by_group, idle=False),
        idle=latencies_of_calls(calls, latencies, by_group, idle=True),
        service_total_ns=int(calls.ints("latency_ns")[~idle].sum()),
    )
