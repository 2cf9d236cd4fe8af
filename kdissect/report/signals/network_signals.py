"""Signals about paths between hosts: dead, slower or lossier since a moment.

path_silent       nothing arrives from a host while data to it is sent again and again
round_trip_rose   data is acknowledged later since a moment, by every acknowledgment
loss_rose         segments are sent again since a moment, on a path and not on others

A server whose process is frozen is no silent path: its kernel still acknowledges. A server that answers late
delays replies, but not every acknowledgment. The subject is a host where all paths of a host are affected,
else a pair of hosts.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator

import numpy as np

from kdissect.report.findings.connection_evidence import chosen_evidence
from kdissect.report.model.incidents import Signal, SubjectKind
from kdissect.report.signals.kinds import SignalCounts, SignalKind
from kdissect.report.signals.make_signal import make_signal
from kdissect.report.signals.path_pauses import pauses
from kdissect.report.signals.path_series import (
    SILENT_NS,
    Direction,
    Episode,
    PathSeries,
    PathStep,
    Standstill,
    common_host,
    gaps_between,
)
from kdissect.report.signals.signal_context import SignalContext
from kdissect.report.wording import counted
from kdissect.text import format_clock, format_duration

PATH_KINDS = (
    SignalKind("path_silent", "nothing arrives from a host, data to it is sent again", SignalCounts.WAITS),
    SignalKind("round_trip_rose", "data is acknowledged later since a moment", SignalCounts.WAITS),
    SignalKind("loss_rose", "segments are sent again since a moment", SignalCounts.WAITS),
)

SECOND = 10**9
STUCK_REPEATS = 2
TOGETHER_NS = 6 * SECOND
"""Pairs of hosts that fall silent within this have one reason; quiet ones notice it later."""

ROSE_RATIO, ROSE_NS = 4, 4_000_000
BARE_STEPS, FLOOR_RATIO, LATE_SHARE = 3, 1.5, 0.9
STEPS_BEFORE, STEPS_AFTER = 3, 5
"""A rise needs so many steps with round trips before and after."""

LOST, LOST_STEPS, LOST_SPAN_NS, LOST_RATIO = 5, 4, 20 * SECOND, 4
"""Losses of a pair of hosts, the seconds that they lie in, within what time, and times the rate elsewhere."""

LOST_SHARE = 0.004
"""TCP repairs a loss in hundreds of segments by itself. Losses that hide in others are not counted."""

PASSING_REPEATS = 4
"""A segment that is sent again more often in a row does not pass at all: that is no loss by chance."""


def path_signals(context: SignalContext) -> Iterator[Signal]:
    """Yield the signals about paths."""
    series = context.shared(PathSeries)
    silences = list(_silences(series, context.end_ns))
    known = {frozenset(one.pair) for one in silences}
    silences += [one for one in pauses(context, series) if frozenset(one.pair) not in known]
    silent = list(_grouped(silences))
    for episodes in silent:
        yield _silence(context, series, episodes)
    for episodes in _grouped(_rises(series)):
        yield _rise(context, series, episodes)
    for episodes in _grouped(_losses(series, [one for group in silent for one in group])):
        yield _loss(context, series, episodes)


def _grouped(episodes: Iterable[Episode]) -> Iterator[list[Episode]]:
    """Yield episodes of one time that have a host in common; the others come alone."""
    left = sorted(episodes, key=lambda one: (one.begin_ns, one.pair))
    while left:
        begin = left[0].begin_ns
        near = [one for one in left if one.begin_ns - begin <= TOGETHER_NS]
        of_host: dict[str, list[Episode]] = defaultdict(list)
        for one in near:
            for host in one.pair:
                of_host[host].append(one)
        # The host with the most pairs; the earliest pair decides between equals.
        host = max(of_host, key=lambda name: len({frozenset(one.pair) for one in of_host[name]}))
        chosen = of_host[host]
        yield chosen
        left = [one for one in left if one not in chosen]


# Silence


def _silences(series: PathSeries, end_ns: int) -> Iterator[Episode]:
    """Yield each pair of hosts and time in which one of them is not heard, and data to it came again."""
    stuck: dict[Direction, list[Standstill]] = defaultdict(list)
    for one in series.standstills:
        if one.most_repeats >= STUCK_REPEATS:
            stuck[one.sender, one.receiver].append(one)
    for (sender, receiver), spans in stuck.items():
        for begin, end in _gaps(series.steps.get((receiver, sender), []), end_ns):
            within = [one for one in spans if begin - SECOND <= one.begin_ns < end and one.end_ns > begin]
            since = min((one.begin_ns for one in within), default=end)
            since = max(begin, since)
            if end - since >= SILENT_NS:
                measures = {
                    "repeats": sum(one.repeats for one in within),
                    "connections": len({one.connection for one in within}),
                }
                yield Episode((sender, receiver), since, None if end >= end_ns else end, measures)


def _gaps(steps: list[PathStep], end_ns: int) -> list[tuple[int, int]]:
    """Return the times of `SILENT_NS` or more without a packet of the sender."""
    return gaps_between(
        [(one.first_ns, one.last_ns) for one in steps if one.first_ns and one.last_ns], end_ns
    )


def _silence(context: SignalContext, series: PathSeries, episodes: list[Episode]) -> Signal:
    begin = min(one.begin_ns for one in episodes)
    ends = [one.end_ns for one in episodes]
    known = [end for end in ends if end is not None]
    end = None if len(known) < len(ends) else max(known)
    repeats = sum(one.measures["repeats"] for one in episodes)
    lasted = format_duration((context.end_ns if end is None else end) - begin)
    return _path_signal(
        context,
        series,
        "path_silent",
        episodes,
        (begin, end),
        f"nothing arrived on {{path}} from {format_clock(begin)} for {lasted}, while "
        + (f"data was sent again {counted(repeats, 'time')}" if repeats else "both hosts talked with others"),
        {"repeats": repeats, "silent_ns": (context.end_ns if end is None else end) - begin},
    )


# Round trips


def _rises(series: PathSeries) -> Iterator[Episode]:
    """Yield each direction and time since which every round trip is longer than before."""
    for direction, steps in series.steps.items():
        timed = [one for one in steps if one.trip_ns is not None]
        trips = np.array([one.trip_ns for one in timed], np.int64)
        at = _rise_at(trips)
        if at is None:
            continue
        before, after = int(np.median(trips[:at])), int(np.median(trips[at : at + 3 * STEPS_AFTER]))
        middle = (before + after) // 2
        if not _is_floor(timed[at : at + 3 * STEPS_AFTER], middle):
            continue
        back = next((n for n in range(at, len(trips) - 2) if (trips[n : n + 3] < middle).all()), None)
        end = timed[back].begin_ns if back is not None else None
        begin = _rise_begin(timed[at - 1], timed[at], middle)
        yield Episode(direction, begin, end, {"before_ns": before, "after_ns": after})


def _rise_at(trips: np.ndarray) -> int | None:
    """Return the first step from which on all round trips are longer than those before."""
    for at in range(STEPS_BEFORE, len(trips) - STEPS_AFTER + 1):
        before = float(np.median(trips[max(0, at - 20) : at]))
        lowest = float(trips[at : at + STEPS_AFTER].min())
        if lowest >= max(ROSE_RATIO * before, before + ROSE_NS):
            return at
    return None


def _is_floor(steps: list[PathStep], middle_ns: int) -> bool:
    """Return whether all acknowledgments are late, those without data like those with: not only responses."""
    trips = np.array([one.trip_ns for one in steps if one.trip_ns is not None])
    bare = np.array([one.bare_ns for one in steps if one.bare_ns is not None])
    return bool(
        len(bare) >= BARE_STEPS
        and (trips >= middle_ns).mean() >= LATE_SHARE
        and (bare >= middle_ns).mean() >= LATE_SHARE
        and np.median(bare) <= FLOOR_RATIO * np.median(trips)
    )


def _rise_begin(last_low: PathStep, first_high: PathStep, middle_ns: int) -> int:
    """Return when round trips rose: within the last step with a short one if it has long ones, too."""
    length = min(SECOND, first_high.begin_ns - last_low.begin_ns)
    if last_low.longest_ns is not None and last_low.longest_ns >= middle_ns:
        return last_low.begin_ns + length // 2
    return first_high.begin_ns


def _rise(context: SignalContext, series: PathSeries, episodes: list[Episode]) -> Signal:
    begin = int(np.median([one.begin_ns for one in episodes]))
    ends = [one.end_ns for one in episodes if one.end_ns is not None]
    end = int(np.median(ends)) if 2 * len(ends) > len(episodes) else None
    before, after = (
        int(np.median([one.measures[f"{when}_ns"] for one in episodes])) for when in ("before", "after")
    )
    return _path_signal(
        context,
        series,
        "round_trip_rose",
        episodes,
        (begin, end),
        f"the round trip on {{path}} rose from {format_duration(before)} to {format_duration(after)} at "
        f"{format_clock(begin)}",
        {"before_ns": before, "after_ns": after},
    )


# Loss


def _losses(series: PathSeries, silent: list[Episode]) -> Iterator[Episode]:
    """Yield each pair of hosts that loses more since a moment than the other pairs.

    A loss is a standstill that ended after data was sent again. Probes of the tail (RFC 8985), which Linux
    sends after 10 ms because the receiver delays its acknowledgment, are none.
    """
    losses: dict[frozenset[str], list[Standstill]] = defaultdict(list)
    dead = {frozenset(one.pair) for one in silent}
    for one in series.standstills:
        passes = one.outcome == "acknowledged" and one.repeats > 0 and one.most_repeats < PASSING_REPEATS
        if passes and frozenset((one.sender, one.receiver)) not in dead:
            losses[frozenset((one.sender, one.receiver))].append(one)
    found = {}
    for pair, spans in losses.items():
        begin = _loss_begin([one.begin_ns for one in spans])
        if begin is not None:
            found[pair] = begin, [one for one in spans if one.begin_ns >= begin]
    for pair, (begin, spans) in found.items():
        elsewhere = [one for one in series.steps if frozenset(one) not in found]
        others = sum(len(losses[one]) for one in {frozenset(one) for one in elsewhere} if one in losses)
        rate = len(spans) / max(_segments(series, [tuple(pair), tuple(pair)[::-1]], begin), 1)
        if rate >= max(LOST_SHARE, LOST_RATIO * others / max(_segments(series, elsewhere, begin), 1)):
            longest = max(one.end_ns - one.begin_ns for one in spans)
            first, second = sorted(pair)
            yield Episode((first, second), begin, None, {"times": len(spans), "longest_ns": longest})


def _loss_begin(times: list[int]) -> int | None:
    """Return the first of several losses that are close to each other, but not in a single burst."""
    for at, begin in enumerate(times):
        near = [time for time in times[at:] if time - begin <= LOST_SPAN_NS]
        if len(near) >= LOST and len({time // SECOND for time in near}) >= LOST_STEPS:
            return begin
    return None


def _segments(series: PathSeries, directions: Iterable[tuple[str, ...]], begin_ns: int) -> int:
    """Return the segments of some directions since a time."""
    return sum(
        one.segments
        for sender, receiver in directions
        for one in series.steps.get((sender, receiver), ())
        if one.begin_ns >= begin_ns // SECOND * SECOND
    )


def _loss(context: SignalContext, series: PathSeries, episodes: list[Episode]) -> Signal:
    begin = min(one.begin_ns for one in episodes)
    times = sum(one.measures["times"] for one in episodes)
    longest = max(one.measures["longest_ns"] for one in episodes)
    return _path_signal(
        context,
        series,
        "loss_rose",
        episodes,
        (begin, None),
        f"data on {{path}} was acknowledged only after it had been sent again {counted(times, 'time')} from "
        f"{format_clock(begin)} on, after up to {format_duration(longest)}",
        {"times": times, "longest_ns": longest},
    )


# All signals of the network


def _path_signal(
    context: SignalContext,
    series: PathSeries,
    kind: str,
    episodes: list[Episode],
    span_ns: tuple[int, int | None],
    sentence: str,
    measures: dict[str, int],
) -> Signal:
    """Return a signal about a host or a pair of hosts; `{path}` in the sentence is what it is about."""
    pairs = [one.pair for one in episodes]
    host = common_host(pairs)
    subject = (
        (SubjectKind.HOST, host_name(context, host))
        if host
        else (SubjectKind.PATH, path_name(context, pairs[0]))
    )
    rows = series.connections(pairs)
    requests, wait_ns = series.waits(rows, span_ns[0], context.end_ns if span_ns[1] is None else span_ns[1])
    return make_signal(
        kind,
        subject,
        span_ns,
        sentence.format(path=("the paths of " if host else "the path between ") + subject[1]),
        measures=measures | {"pairs": len({frozenset(pair) for pair in pairs}), "connections": len(rows)},
        servers=_servers(context, rows),
        clients=context.clients_of(rows),
        requests=requests,
        wait_ns=wait_ns,
        evidence=[chosen_evidence(context.rules, subject[1], "on this path", rows)] if len(rows) else (),
    )


def _servers(context: SignalContext, rows: np.ndarray) -> list[str]:
    return [context.server_names[number] for number in np.unique(context.connections.server[rows]).tolist()]


def host_name(context: SignalContext, host: str) -> str:
    """Return a host as its broker, if it is one: broker 3 (10.1.0.3:9092), else host 10.1.0.9."""
    columns = context.facts.columns
    names = {
        context.servers.name(name, port)
        for name, port, talks in zip(
            columns.values("server_host"),
            columns.values("server_port"),
            context.connections.talks,
            strict=True,
        )
        if name == host and talks
    }
    return names.pop() if len(names) == 1 else f"host {host}"


def path_name(context: SignalContext, pair: Direction) -> str:
    """Return both hosts of a path: host 10.1.0.9 and broker 3 (10.1.0.3:9092)."""
    return " and ".join(sorted((host_name(context, host) for host in pair), reverse=True))
