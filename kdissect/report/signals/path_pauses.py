"""Pauses of a path in which nothing is sent again: requests get lost before they come to the capture.

In come the series of paths, out go pairs of hosts and times. Two hosts paused if several busy clients fall
silent together on their path and go on together, while both hosts talk with others. A host whose paths all
pause talks with nobody: then what piled up must show that its clients wanted to send.
"""

from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from kdissect.report.signals.client_names import ClientFacts
from kdissect.report.signals.path_series import Direction, Episode, PathSeries, gaps_between
from kdissect.report.signals.signal_context import SignalContext

SECOND = 10**9
PAUSED_NS, PAUSED_CLIENTS, BUSY_SECONDS = 4 * SECOND, 2, 5
"""A pause without retransmissions counts if it is longer, of several clients, and in the midst of traffic."""

EDGE_NS = SECOND // 20
"""Requests just before a pause are its last packets, and their responses the first ones after it."""

BACK_NS = 3 * SECOND
"""A client opens another connection this soon after a path is well again, or later."""

PAUSED_PATHS, PILED_UP = 2, 2
"""Paths of a host that pause together, and how many times the usual traffic comes in the seconds after it."""


def pauses(context: SignalContext, series: PathSeries) -> Iterator[Episode]:
    """Yield the pairs of hosts that fall silent and go on, and when."""
    pairs = sorted({(min(one), max(one)) for one in series.steps})
    for pair in pairs:
        yield from _of_pair(context, series, pair)
    of_host: dict[str, list[Direction]] = defaultdict(list)
    for pair in pairs:
        for host in pair:
            of_host[host].append(pair)
    for host, own in of_host.items():
        if len(own) >= PAUSED_PATHS:
            yield from _of_host(context, series, host, own)


def _of_pair(context: SignalContext, series: PathSeries, pair: Direction) -> Iterator[Episode]:
    """Yield the times at which two hosts are silent that talk with others meanwhile."""
    heard = series.heard(pair)
    for begin, end in gaps_between(heard, context.end_ns):
        rows = _interrupted(context, series, [pair], heard, (begin, end))
        if len(rows) and all(_talks_elsewhere(series, host, [pair], begin, end) for host in pair):
            yield Episode(pair, begin, end, {"repeats": 0, "connections": len(rows)})


def _of_host(
    context: SignalContext, series: PathSeries, host: str, pairs: list[Direction]
) -> Iterator[Episode]:
    """Yield the times at which a host of clients talks with nobody, and has much to send when they end."""
    heard = sorted(span for pair in pairs for span in series.heard(pair))
    for begin, end in gaps_between(_merged(heard), context.end_ns):
        rows = _interrupted(context, series, pairs, heard, (begin, end))
        others = [peer for pair in pairs for peer in pair if peer != host]
        if (
            len(rows)
            and series.are_clients(rows, host)
            and _piled_up(series, pairs, begin, end)
            and all(_talks_elsewhere(series, peer, pairs, begin, end) for peer in others)
        ):
            for pair in pairs:
                yield Episode(pair, begin, end, {"repeats": 0, "connections": len(rows) // len(pairs)})


def _interrupted(
    context: SignalContext,
    series: PathSeries,
    pairs: list[Direction],
    heard: list[tuple[int, int]],
    span_ns: tuple[int, int],
) -> np.ndarray:
    """Return the connections that a pause interrupts; none if it is short, at an edge, or of one client."""
    begin, end = span_ns
    none = np.zeros(0, np.int64)
    if end >= context.end_ns or end - begin < PAUSED_NS or not _is_busy(heard, begin, end):
        return none
    rows = series.connections(pairs)
    if series.answered_after(rows, begin + EDGE_NS, end - EDGE_NS):
        return none
    paused = _paused(context, rows, begin, end)
    clients = np.unique(context.connections.client[paused])
    return paused if len(clients) >= PAUSED_CLIENTS else none


def _merged(heard: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return spans, sorted by their begin, as spans that do not overlap."""
    merged: list[tuple[int, int]] = []
    for first, last in heard:
        if merged and first <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return merged


def _piled_up(series: PathSeries, pairs: list[Direction], begin_ns: int, end_ns: int) -> bool:
    """Return whether much more is sent just after a pause than usual: it had waited.

    Connections wait the longer for their next attempt the longer the path is dead, so some paths go on later.
    """
    before = after = 0
    for pair in pairs:
        steps = [one for way in (pair, pair[::-1]) for one in series.steps.get(way, ())]
        own = sum(one.segments for one in steps if end_ns - SECOND < one.begin_ns < end_ns + SECOND)
        if own:
            after += own
            since = begin_ns - BUSY_SECONDS * SECOND
            before += sum(one.segments for one in steps if since <= one.begin_ns < begin_ns - SECOND)
    return after * (BUSY_SECONDS - 1) >= PILED_UP * 2 * before > 0


def _paused(context: SignalContext, rows: np.ndarray, begin_ns: int, end_ns: int) -> np.ndarray:
    """Return the connections that a pause interrupts, of clients that go on when it ends.

    Some go on with a connection that they have, and some open another one. A connection that was closed
    before the pause has nothing to do with it, and neither has a client that sends no request after it: it
    had nothing to say.
    """
    facts = context.connections
    before = rows[(facts.first_ns[rows] < begin_ns) & (facts.last_ns[rows] >= begin_ns - SECOND)]
    before = before[~facts.ends[before] | (facts.closed_ns[before] >= begin_ns)]
    after = rows[(facts.last_ns[rows] > end_ns) & (facts.first_ns[rows] <= end_ns + BACK_NS)]
    found: np.ndarray = before[np.isin(facts.client[before], facts.client[after])]
    silent = [
        client
        for client in np.unique(facts.client[found]).tolist()
        if not _asks_again(context, context.client_names[client], end_ns)
    ]
    return found[~np.isin(facts.client[found], silent)]


def _asks_again(context: SignalContext, client: str, end_ns: int) -> bool:
    """Return whether a client sends a request when a pause ends, or soon after; also if none is known."""
    clients = context.shared(ClientFacts)
    if clients.active_before(client, context.end_ns + 1) is None:
        return True
    again_ns = clients.active_after(client, end_ns - EDGE_NS)
    return again_ns is not None and again_ns <= end_ns + BACK_NS


def _is_busy(heard: list[tuple[int, int]], begin_ns: int, end_ns: int) -> bool:
    """Return whether packets came in nearly every second before and after a pause."""
    before = {first // SECOND for first, _ in heard if begin_ns - BUSY_SECONDS * SECOND <= first <= begin_ns}
    after = {first // SECOND for first, _ in heard if end_ns <= first <= end_ns + BUSY_SECONDS * SECOND}
    return len(before) >= BUSY_SECONDS - 1 and len(after) >= BUSY_SECONDS - 2


def _talks_elsewhere(
    series: PathSeries, host: str, pairs: list[Direction], begin_ns: int, end_ns: int
) -> bool:
    """Return whether a host talks on another path than some in every second of a span."""
    seconds = set(range(begin_ns // SECOND + 1, end_ns // SECOND))
    quiet = {frozenset(pair) for pair in pairs}
    for one in series.steps:
        if host in one and frozenset(one) not in quiet:
            seconds -= {first // SECOND for first, _ in series.heard((min(one), max(one)))}
    return not seconds
