"""Figures of any set of exchanges: calls and latencies, grouped by whatever columns the report ranks by.

`GroupFigures` holds the figures of all groups as columns, so a capture with a hundred thousand clients costs no more than its
rows; `figures` makes the object of one group when it is shown.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kdissect.report.aggregate.confidence import confidence_ranks
from kdissect.report.aggregate.grouping import (
    Mask,
    RowGroups,
    TableColumns,
    sum_by_group,
)
from kdissect.report.aggregate.histogram import (
    Histograms,
    Ints,
    add_up,
    bounds_at_ranks,
    bucket_of,
    middle,
    percentiles,
    variance,
)
from kdissect.report.aggregate.partial_tables import CALLS
from kdissect.report.model.summary import (
    HISTOGRAM_EDGES_NS,
    Figures,
    Latency,
)

PER_MILLE = (500, 900, 990, 999)
STATUSES = ("answered", "no_response_expected", "unanswered", "orphan_response")
ABSENT_LOW, ABSENT_HIGH = np.iinfo(np.int64).max, np.iinfo(np.int64).min


@dataclass(frozen=True, slots=True)
class Latencies:
    """Latencies by group, one entry per group in each array (`cells` has a row per group)."""

    count: Ints
    total: Ints
    lowest: Ints
    highest: Ints
    ranked: list[Ints]
    spread: npt.NDArray[np.float64]
    cells: Ints
    buckets: Histograms

    def latency(self, group: int) -> Latency | None:
        """Give the latencies of one group, None if it has none."""
        count, total = int(self.count[group]), int(self.total[group])
        if not count:
            return None
        low, high = int(self.lowest[group]), int(self.highest[group])
        p50, p90, p99, p99_9 = (min(max(int(values[group]), low), high) for values in self.ranked)
        mean = total / count

        def between(per_mille: int) -> tuple[int, int] | None:
            found = confidence_ranks(count, per_mille)
            if found is None:
                return None
            lower, upper = bounds_at_ranks(self.buckets, group, found)
            return max(lower, low), min(upper, high)

        return Latency(
            count=count, sum_ns=total, mean_ns=round(mean), min_ns=low, p50_ns=p50, p90_ns=p90, p99_ns=p99,
            p99_9_ns=p99_9, max_ns=high, variance_to_mean_ns=round(float(self.spread[group]) / mean) if mean else 0,
            p50_between_ns=between(500), p90_between_ns=between(900), p99_between_ns=between(990),
            histogram=tuple(self.cells[group].tolist()),
        )  # fmt: skip


def collect_latencies(groups: int, buckets: Histograms, of: Ints, counts: Sequence[Ints]) -> Latencies:
    """Put together rows of groups `of` with (count, sum, lowest, highest), and the buckets of the same groups."""
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
    ranked, spread = percentiles(buckets, groups, PER_MILLE), variance(buckets, groups)
    return Latencies(counts_by_group, totals, lowest, highest, ranked, spread, cells, buckets)


class LatencyGroups(NamedTuple):
    """The group of each row of calls, of each row of their latencies, and how many groups there are."""

    calls: Ints
    latencies: Ints
    groups: int


def latencies_of_calls(
    calls: TableColumns, latencies: TableColumns, timing: LatencyGroups, *, idle: bool
) -> Latencies:
    """Give the latencies by group: of calls that wait idly, or of those that do not."""
    rows = (calls.truths("idle_wait") == idle) & (calls.ints("timed") > 0)
    buckets = latencies.truths("idle_wait") == idle
    counts = [calls.ints(name)[rows] for name in ("timed", "latency_ns", "latency_min_ns", "latency_max_ns")]
    counted = add_up(
        timing.latencies[buckets], latencies.ints("bucket")[buckets], latencies.ints("count")[buckets]
    )
    return collect_latencies(timing.groups, counted, timing.calls[rows], counts)


def exact_latencies(values: Ints) -> Latencies:
    """Give the latencies of one group from single values, by the same buckets."""
    one = np.zeros(len(values), np.int64)
    return collect_latencies(
        1, add_up(one, bucket_of(values), one + 1), one, (one + 1, values, values, values)
    )


class GroupFigures(NamedTuple):
    """Figures of all groups."""

    groups: int
    sums: dict[str, Ints]
    extremes: dict[str, Ints]
    by_status: dict[str, Ints]
    doubtful: Ints
    unanswered: dict[str, Ints]
    service: Latencies
    idle: Latencies
    service_total_ns: int

    def figures(self, group: int) -> Figures:
        """Give the figures of one group."""

        def at(values: Ints) -> int:
            return int(values[group])

        def extreme(name: str) -> int | None:
            value = at(self.extremes[name])
            return None if value in (ABSENT_LOW, ABSENT_HIGH) else value

        same = ("error_responses", "errors", "faults", "request_bytes", "response_bytes", "throttled", "throttle_ms",
                "pipelined", "acks_none", "acks_leader", "acks_all", "transfer_ns", "untimed")  # fmt: skip
        return Figures(
            exchanges=at(self.sums["exchanges"]),
            answered=at(self.by_status["answered"]),
            no_response_expected=at(self.by_status["no_response_expected"]),
            unanswered=at(self.by_status["unanswered"]),
            unanswered_closed=at(self.unanswered["closed"]),
            unanswered_open=at(self.unanswered["open"]),
            unanswered_lossy=at(self.unanswered["lossy"]),
            orphan_responses=at(self.by_status["orphan_response"]),
            throttle_max_ms=extreme("throttle_max_ms") or 0,
            in_flight_max=extreme("in_flight_max") or 0,
            transfer_max_ns=extreme("transfer_max_ns") or 0,
            doubtful=at(self.doubtful),
            first_time_ns=extreme("first_ns"),
            last_time_ns=extreme("last_ns"),
            time_share=round(at(self.service.total) / max(self.service_total_ns, 1), 6),
            service=self.service.latency(group),
            idle=self.idle.latency(group),
            **{name: at(self.sums[name]) for name in same},
        )

    def ranked(self) -> list[int]:
        """Give the groups in order of service time, then of exchanges."""
        ranks = (np.arange(self.groups), -self.sums["exchanges"], -self.service.total)
        return [int(group) for group in np.lexsort(ranks)]


class ConnectionFlags(NamedTuple):
    """What became of the connection of each row of calls."""

    lossy: Mask
    closed: Mask


def group_figures(
    calls: TableColumns,
    latencies: TableColumns,
    fate: ConnectionFlags,
    call_groups: RowGroups,
    latency_groups: Ints,
) -> GroupFigures:
    """Give the figures of calls grouped by `call_groups`; `latency_groups` tells the same for the rows of latencies."""
    groups, timing = call_groups, LatencyGroups(call_groups.of, latency_groups, call_groups.count)
    status = {name: calls.equals("status", name) for name in STATUSES}
    exchanges, idle = calls.ints("exchanges"), calls.truths("idle_wait")
    unanswered = np.where(status["unanswered"], exchanges, 0)
    extremes = {}
    for names, start, pick in (
        (CALLS.lowest, ABSENT_LOW, np.minimum),
        (CALLS.highest, ABSENT_HIGH, np.maximum),
    ):
        for name in names:
            extremes[name] = np.full(groups.count, start)
            there = calls.known(name)
            pick.at(extremes[name], groups.of[there], calls.ints(name)[there])
    return GroupFigures(
        groups=groups.count,
        sums={name: sum_by_group(groups, calls.ints(name)) for name in CALLS.sums},
        extremes=extremes,
        by_status={name: sum_by_group(groups, np.where(mask, exchanges, 0)) for name, mask in status.items()},
        doubtful=sum_by_group(groups, np.where(fate.lossy, exchanges, 0)),
        unanswered={
            "lossy": sum_by_group(groups, np.where(fate.lossy, unanswered, 0)),
            "closed": sum_by_group(groups, np.where(~fate.lossy & fate.closed, unanswered, 0)),
            "open": sum_by_group(groups, np.where(~fate.lossy & ~fate.closed, unanswered, 0)),
        },
        service=latencies_of_calls(calls, latencies, timing, idle=False),
        idle=latencies_of_calls(calls, latencies, timing, idle=True),
        service_total_ns=int(calls.ints("latency_ns")[~idle].sum()),
    )
