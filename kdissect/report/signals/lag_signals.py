"""Signals about readers that fall behind, and about those that catch up.

    lag_grew        a consumer, or the offsets that its group commits, falls further behind all the time
    lag_shrinks     a consumer was far behind and catches up, with the time at which it will be done

A reader that stood still, or got a burst of records, is behind for a moment. Lag grows if it does so over
most of the time that is seen, by a good part of what is written.
"""

from collections.abc import Iterator, Sequence

from kdissect.report.model.incidents import Signal, SubjectKind
from kdissect.report.signals.client_names import ClientFacts
from kdissect.report.signals.kinds import SignalCounts, SignalKind
from kdissect.report.signals.log_positions import PAUSED_NS, Lag, LogPositions
from kdissect.report.signals.make_signal import make_signal
from kdissect.report.signals.signal_context import SignalContext
from kdissect.report.wording import listed
from kdissect.text import format_clock, format_count, format_duration

SECOND = 10**9
LAG_KINDS = (
    SignalKind("lag_grew", "a consumer falls behind", SignalCounts.NOTHING),
    SignalKind("lag_shrinks", "a consumer catches up", SignalCounts.NOTHING),
)
LEAST_RECORDS, LEAST_NS = 100, 8 * SECOND
TIMES_BEFORE, STILL_THERE = 2, 0.9
"""Lag that grew is twice what it was, and nine tenths of the most that it ever was."""

STARVED = 0.5
"""A reader that misses so much of what is written falls behind, however far behind it was before."""

SHARE_OF_WRITTEN = 0.25
"""A reader that falls behind by less of what is written keeps up, but for the records on their way."""

GROWN_BY = ((0.5, 0.2), (0.75, 0.45))
"""After these parts of the time, lag must have grown for good by these parts of all that it grows."""

STOOD_STILL_NS = 8 * SECOND
HANGS_NS, HANGS_TIMES = 12 * SECOND, 3
"""A reader hangs that fetches nothing for so long, and for so many times the longest rest it took before."""

BEGAN_NS = 6 * SECOND
"""A lag that is first seen this soon after its consumer began was there from its begin on.

If that is the beginning of the capture, it was there before.
"""

ENDED_NS = 5 * SECOND
"""A signal that was seen this shortly before the end of the capture lasts to its end."""

NAMED = 3
MOST = 0.8
"""Partitions that lack such a part of all records tell what a reader does, and the others do not."""

PEAK_RECORDS, SHRUNK = 1_000, 0.8


def lag_signals(context: SignalContext) -> Iterator[Signal]:
    """Yield the signals about lag."""
    facts = context.shared(ClientFacts)
    positions = context.shared(LogPositions)
    for client, topic in sorted(positions.fetched):
        lag = positions.behind_fetching(client, topic)
        groups = sorted(facts.groups.get(client, ()))
        if len(groups) > 1:
            continue  # processes of one name, each at positions of its own: their commits tell
        if lag is not None and (paused := _paused(positions, client, topic, lag)):
            yield _left(context, client, groups, topic, "fetched from", paused)
        elif lag is not None and has_grown(lag):
            yield _grew(context, client, groups, topic, lag, _reads(facts, positions, client, topic, lag))
        elif lag is not None and (since := _hangs_since(positions, client, topic, lag)) is not None:
            what = f"has not fetched from topic {topic} since {format_clock(since)}, while others write to it"
            yield _grew(context, client, groups, topic, lag.since(since), (what, since))
        elif lag is not None and (end_ns := caught_up_ns(lag)) is not None:
            yield _shrinks(client, groups, topic, lag, end_ns)
    for client, group, topic in sorted(positions.committed):
        if client not in facts.readers:
            continue
        lag = positions.behind_committing(client, group, topic)
        if lag is not None and has_grown(lag):
            what = f"processes topic {topic} more slowly than it is written"
            since = facts.began(client, lag.times[0], BEGAN_NS)
            yield _grew(context, client, [group], topic, lag, (what, since))
        elif left := _unmoved(positions.left_uncommitted(client, group, topic, HANGS_NS)):
            yield _left(context, client, [group], topic, "committed", left)


def _reads(facts: ClientFacts, positions: LogPositions, client: str, topic: str, lag: Lag) -> tuple[str, int]:
    """Return what a client does that falls behind, and since when.

    It reads slowly, gets nothing, or does not ask.
    """
    since, began = positions.stood_still(client, topic), facts.began(client, lag.times[0], BEGAN_NS)
    if lag.times[-1] - since < STOOD_STILL_NS:
        return f"reads topic {topic} more slowly than it is written", began
    if facts.fetches_after(client, since + PAUSED_NS):
        return f"fetches from topic {topic} and gets none of its records since {format_clock(since)}", since
    return f"has not fetched from topic {topic} since {format_clock(since)}, while others write to it", began


def _hangs_since(positions: LogPositions, client: str, topic: str, lag: Lag) -> int | None:
    """Return since when a client that lives fetches nothing, None if it often rests as long.

    The member of a group whose application hangs goes on with its heartbeats.
    """
    since = positions.stood_still(client, topic)
    least = max(HANGS_NS, HANGS_TIMES * positions.longest_rest(client, topic))
    hangs = lag.times[-1] - since >= least and has_grown(lag.since(since + PAUSED_NS))
    return since if hangs else None


def _paused(positions: LogPositions, client: str, topic: str, lag: Lag) -> dict[int, tuple[int, int]]:
    """Return the partitions that a client does not fetch from any more, if they are most of what it lacks."""
    paused = _unmoved(positions.left_behind(client, topic, HANGS_NS))
    return paused if sum(left for _, left in paused.values()) >= MOST * lag.records[-1] else {}


def _unmoved(stopped: dict[int, tuple[int, int]]) -> dict[int, tuple[int, int]]:
    """Return the partitions, of those at which a client stopped, that lack many records."""
    return {number: one for number, one in stopped.items() if one[1] >= LEAST_RECORDS}


def has_grown(lag: Lag) -> bool:
    """Return whether a lag grew steadily, by much of what was written, and is still there at the end."""
    after, lasted = lag.records[-1], lag.times[-1] - lag.times[0]
    grew = after - lag.before
    if grew < max(LEAST_RECORDS, SHARE_OF_WRITTEN * lag.written) or lasted < LEAST_NS:
        return False
    is_more = after >= TIMES_BEFORE * lag.before or 0 < STARVED * lag.written <= grew
    if not is_more or after < STILL_THERE * max(lag.records):
        return False
    return all(
        lag.least_since(lag.times[0] + int(part * lasted)) - lag.before >= least * grew
        for part, least in GROWN_BY
    )


def caught_up_ns(lag: Lag) -> int | None:
    """Return when a lag that shrinks will be gone if it goes on like this, None if it does not shrink."""
    most = max(lag.records)
    peak = lag.times[lag.records.index(most)]
    lasted, gone = lag.times[-1] - peak, most - lag.records[-1]
    is_shrinking = most >= PEAK_RECORDS and lasted >= LEAST_NS // 4
    if not is_shrinking or not LEAST_RECORDS <= lag.records[-1] <= SHRUNK * most:
        return None
    return lag.times[-1] + lag.records[-1] * lasted // gone


def _named(client: str, groups: Sequence[str]) -> str:
    return f"{client} (group {', '.join(groups)})" if groups else client


def _until(context: SignalContext, last_ns: int) -> int | None:
    return None if context.end_ns - last_ns < ENDED_NS else last_ns


def _grew(
    context: SignalContext,
    client: str,
    groups: Sequence[str],
    topic: str,
    lag: Lag,
    done: tuple[str, int],
) -> Signal:
    first, last = lag.times[0], lag.times[-1]
    what, begin = done
    if begin - context.begin_ns <= BEGAN_NS:
        begin = context.begin_ns
    a_second = (lag.records[-1] - lag.before) * SECOND // max(last - first, 1)
    return make_signal(
        "lag_grew",
        (SubjectKind.CLIENT, client),
        (begin, _until(context, last)),
        f"{_named(client, groups)} {what}: from {format_count(lag.before)} to "
        f"{format_count(lag.records[-1])} records behind in {format_duration(last - first)}, {a_second} more "
        "each second, so at this rate it never catches up",
        measures={"before": lag.before, "after": lag.records[-1], "per_second": a_second},
        clients=[client],
        groups=groups,
        topics=[topic],
    )


def _left(
    context: SignalContext,
    client: str,
    groups: Sequence[str],
    topic: str,
    verb: str,
    paused: dict[int, tuple[int, int]],
) -> Signal:
    """Return the signal of a client that reads some partitions of a topic and not the others."""
    begin, records = min(since for since, _ in paused.values()), sum(left for _, left in paused.values())
    names = listed([f"{topic}-{number}" for number in sorted(paused)], NAMED)
    a_second = records * SECOND // max(context.end_ns - begin, 1)
    return make_signal(
        "lag_grew",
        (SubjectKind.CLIENT, client),
        (begin, None),
        f"{_named(client, groups)} has not {verb} {names} since {format_clock(begin)}, while it goes "
        f"on with other partitions of the topic: {format_count(records)} records behind there, {a_second} "
        "more each second",
        measures={"before": 0, "after": records, "per_second": a_second},
        clients=[client],
        groups=groups,
        topics=[topic],
    )


def _shrinks(client: str, groups: Sequence[str], topic: str, lag: Lag, end_ns: int) -> Signal:
    most = max(lag.records)
    peak = lag.times[lag.records.index(most)]
    a_second = (most - lag.records[-1]) * SECOND // max(lag.times[-1] - peak, 1)
    return make_signal(
        "lag_shrinks",
        (SubjectKind.CLIENT, client),
        (peak, None),
        f"{_named(client, groups)} catches up with topic {topic}: from {format_count(most)} to "
        f"{format_count(lag.records[-1])} records behind, {a_second} fewer each second; at this rate it is "
        f"done at {format_clock(end_ns)}",
        measures={"most": most, "after": lag.records[-1], "per_second": a_second},
        clients=[client],
        groups=groups,
        topics=[topic],
    )
