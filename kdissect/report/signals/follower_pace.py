"""How quickly brokers react as followers: the time from the response to a replica fetch to the next request.

    follower_slowed    a follower takes several times as long to its next Fetch since a moment

A follower sends its next Fetch as soon as it has appended what the last one returned. So this time is the
broker's own: it waits for no other broker. With acks=all all brokers answer late when one follower is slow,
and this time tells which one it is. A broker that is slow is so with all of its leaders. One that is late
with a single leader waits for that one.

In come rows of PACE. From the first Fetch of a step of time to the first of the next step, a follower waits
for the first and the last byte of responses (`held_ns`, `transfer_ns`), and what is left is its own. Sums of
steps lead to it, so it is the same however rows are dealt out.
"""

from collections.abc import Collection, Iterator
from typing import NamedTuple

import numpy as np

from kdissect.array_types import Int64s
from kdissect.protocol.api_keys import ApiKey
from kdissect.report.aggregate.grouping import TableColumns
from kdissect.report.aggregate.partial_rows import sort_rows
from kdissect.report.model.incidents import Signal, SubjectKind
from kdissect.report.signals.changes import Series, find_segments
from kdissect.report.signals.kinds import SignalCounts, SignalKind
from kdissect.report.signals.make_signal import make_signal
from kdissect.report.signals.named_rows import server_rows
from kdissect.report.signals.server_names import follower_of
from kdissect.report.signals.signal_context import SignalContext
from kdissect.report.timeline.signal_tables import PACE
from kdissect.text import format_clock, format_duration

FOLLOWER_KINDS = (
    SignalKind("follower_slowed", "a follower takes longer to its next Fetch", SignalCounts.NOTHING),
)

SECOND = 10**9
MIN_FETCHES = 8
"""A follower that fetches less often in a span of time tells nothing."""

LEAST_NS = 1_000_000
"""Reactions that are faster than this count as this fast: what is below is the scheduler's."""

SLOWED_OCTAVES, SLOWED_NS, LASTED_NS = 2.0, 5_000_000, 5 * SECOND
"""A follower slowed down if it takes so many doublings longer, by so much, for so long."""


class FollowerFetches(NamedTuple):
    """Replica fetches, one row for each step of time and pair of follower and leader.

    `reaction_ns` is the time between responses and next requests, of `fetches` together, from `first_ns` on.
    `followers` has the name of the follower of each pair.
    """

    step: Int64s
    pair: Int64s
    first_ns: Int64s
    reaction_ns: Int64s
    fetches: Int64s
    followers: list[str]

    def of(self, names: Collection[str]) -> "FollowerFetches":
        """Return the rows of some followers."""
        wanted = np.array([name in names for name in self.followers], bool)
        rows = np.flatnonzero(wanted[self.pair]) if len(wanted) else np.zeros(0, np.int64)
        return FollowerFetches(
            self.step[rows],
            self.pair[rows],
            self.first_ns[rows],
            self.reaction_ns[rows],
            self.fetches[rows],
            self.followers,
        )

    def level_ns(self, steps: range) -> int | None:
        """Return how long these followers take to the next Fetch in some steps, in ns; None if too few did.

        A follower counts by the leader with which it is quickest, and of several followers the slowest.
        """
        inside = (self.step >= steps.start) & (self.step < steps.stop)
        size = len(self.followers)
        fetches = np.bincount(self.pair[inside], self.fetches[inside], size)
        reaction = np.bincount(self.pair[inside], self.reaction_ns[inside], size)
        levels: dict[str, list[int]] = {}
        for pair in np.flatnonzero(fetches >= MIN_FETCHES).tolist():
            levels.setdefault(self.followers[pair], []).append(int(reaction[pair] / fetches[pair]))
        return max((min(own) for own in levels.values()), default=None)


def follower_fetches(context: SignalContext) -> FollowerFetches:
    """Return the replica fetches of a capture."""
    pace = context.table(PACE)
    pace = sort_rows(PACE, pace.filter(pace.ints("api_key") == ApiKey.FETCH))
    ids, leaders = pace.text("client_id"), server_rows(pace, context.servers)
    nodes = np.array([*(_node(text) for text in ids.texts.to_pylist()), -1], np.int64)[ids.numbers]
    size = len(leaders.names)
    pairs, of = np.unique(np.where(nodes < 0, -1, nodes * size + leaders.of), return_inverse=True)
    others = int(len(pairs) > 0 and pairs[0] < 0)  # rows of other clients, which come first
    parts = _by_step(of - others, len(pairs) - others, pace)
    followers = [context.servers.of_node(pair // size) for pair in pairs[others:].tolist()]
    return FollowerFetches(*parts, followers)


def _node(client_id: str) -> int:
    node = follower_of(client_id)
    return -1 if node is None else node


def _by_step(of: Int64s, pairs: int, pace: TableColumns) -> tuple[Int64s, Int64s, Int64s, Int64s, Int64s]:
    """Return step, pair, first time, reaction and number of fetches; the last step of a pair is left out."""
    step, first_ns, fetches = map(pace.ints, ("step", "first_ns", "exchanges"))
    held_ns = pace.ints("held_ns") + pace.ints("transfer_ns")
    rows: list[tuple[int, int, int, int, int]] = []
    for pair in range(pairs):
        own = of == pair
        steps, at = np.unique(step[own], return_inverse=True)
        first = np.full(len(steps), np.iinfo(np.int64).max)
        np.minimum.at(first, at, first_ns[own])
        held, count = (np.bincount(at, column[own]).astype(np.int64) for column in (held_ns, fetches))
        reaction = np.maximum(np.diff(first) - held[:-1], 0)
        parts = (steps, np.full(len(steps), pair), first, reaction, count)
        rows += zip(*(part[: len(steps) - 1].tolist() for part in parts), strict=True)
    columns = np.array(rows, np.int64).reshape(len(rows), 5).T
    return columns[0], columns[1], columns[2], columns[3], columns[4]


def follower_signals(context: SignalContext) -> Iterator[Signal]:
    """Yield a signal for each broker that reacts more slowly as a follower since a moment."""
    grid = context.grid
    if grid is None:
        return
    fetches = context.shared(follower_fetches)
    names = sorted(set(fetches.followers))
    for name in names:
        others = fetches.of([other for other in names if other != name])
        yield from _slowed(context, name, fetches.of([name]), others, grid.steps)


def _slowed(
    context: SignalContext, name: str, own: FollowerFetches, others: FollowerFetches, steps: int
) -> Iterator[Signal]:
    levels = np.log2(np.maximum(own.reaction_ns / np.maximum(own.fetches, 1), LEAST_NS))
    series = Series(
        np.bincount(own.step, own.fetches, steps).astype(np.int64),
        np.bincount(own.step, own.fetches * levels, steps).astype(np.float64),
        np.bincount(own.step, own.fetches * levels**2, steps).astype(np.float64),
    )
    segments = find_segments(series)
    for at in range(1, len(segments)):
        before, after = (range(one.start, one.stop) for one in segments[at - 1 : at + 1])
        means = [fetches.level_ns(span) for fetches in (own, others) for span in (before, after)]
        figures = [max(mean or 0, LEAST_NS) for mean in means]
        middle = (segments[at - 1].mean + segments[at].mean) / 2
        late = own.first_ns[(own.step >= after.start) & (levels > middle)]
        if segments[at].mean - segments[at - 1].mean < SLOWED_OCTAVES or not len(late):
            continue
        begin, to_the_end = int(late.min()), after.stop >= steps
        end = context.end_ns if to_the_end else int(own.first_ns[own.step < after.stop].max())
        if figures[1] - figures[0] < SLOWED_NS or end - begin < LASTED_NS:
            continue
        yield make_signal(
            "follower_slowed",
            (SubjectKind.SERVER, name),
            (begin, None if to_the_end else end),
            f"{name} takes {format_duration(figures[1])} from a response to its next replica fetch since "
            f"{format_clock(begin)}, instead of {format_duration(figures[0])}",
            measures={
                "before_ns": figures[0],
                "after_ns": figures[1],
                "rival_before_ns": 0 if means[2] is None else figures[2],
                "rival_after_ns": 0 if means[3] is None else figures[3],
            },
        )
