"""Signals about single connections: what a packet's size or age, or a window did to them.

large_segments_stuck     large segments never arrive on a path on which small ones do
idle_connection_dropped  data after a long silence gets no acknowledgment, while other connections go on
window_closed            a client's receive window was closed while the server had data for it
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np

from kdissect.report.aggregate.network_tables import STANDSTILLS
from kdissect.report.findings.connection_evidence import chosen_evidence
from kdissect.report.model.incidents import Signal, SubjectKind
from kdissect.report.signals.kinds import SignalCounts, SignalKind
from kdissect.report.signals.make_signal import make_signal
from kdissect.report.signals.network_signals import host_name
from kdissect.report.signals.path_series import PathSeries, Standstill
from kdissect.report.signals.signal_context import SignalContext
from kdissect.report.wording import counted, listed
from kdissect.text import format_clock, format_duration

TRANSPORT_KINDS = (
    SignalKind("large_segments_stuck", "large segments never arrive, small ones do", SignalCounts.WAITS),
    SignalKind("idle_connection_dropped", "data after a silence gets no acknowledgment", SignalCounts.WAITS),
    SignalKind("window_closed", "a client's receive window was closed", SignalCounts.WAITS),
)

SECOND = 10**9
LARGE_BYTES = 500
STUCK_REPEATS = 3
STUCK_SPANS = 2
PEERS_NAMED = 2
PASSED_STEPS = 2
IDLE_NS = 4 * SECOND
"""A middlebox forgets a connection after minutes, some after seconds."""

IDLE_REPEATS = 2
CLOSED_NS = SECOND // 5
"""A window that was closed for less did not delay anybody much."""

CLOSED_SPANS, CLOSED_TOTAL_NS = 3, SECOND


def transport_signals(context: SignalContext) -> Iterator[Signal]:
    """Yield the signals about single connections."""
    series = context.shared(PathSeries)
    yield from _large_segments(context, series)
    yield from _dropped(context, series)
    yield from _closed_windows(context)


def _rows_of(context: SignalContext, numbers: set[int]) -> np.ndarray:
    """Return the rows of connections with some numbers."""
    return np.flatnonzero(np.isin(context.facts.numbers, np.array(sorted(numbers), np.int64)))


def _connection_signal(
    context: SignalContext,
    series: PathSeries,
    kind: str,
    subject: tuple[SubjectKind, str],
    spans: list[Standstill],
    end_ns: int | None,
    sentence: str,
    measures: dict[str, int],
) -> Signal:
    """Return a signal about the connections of some standstills."""
    rows = _rows_of(context, {one.connection for one in spans})
    begin = min(one.begin_ns for one in spans)
    requests, wait_ns = series.waits(rows, begin, context.end_ns if end_ns is None else end_ns)
    servers = context.connections.server[rows]
    return make_signal(
        kind,
        subject,
        (begin, end_ns),
        sentence,
        measures=measures | {"connections": len(rows)},
        servers=[context.server_names[number] for number in np.unique(servers).tolist()],
        clients=context.clients_of(rows),
        requests=max(requests, len(rows)),
        wait_ns=wait_ns,
        evidence=[chosen_evidence(context.rules, subject[1], "stuck", rows)] if len(rows) else (),
    )


# Sizes


def _large_segments(context: SignalContext, series: PathSeries) -> Iterator[Signal]:
    stuck = [
        one
        for one in series.standstills
        if one.segment_bytes >= LARGE_BYTES
        and (one.most_repeats >= STUCK_REPEATS or (one.outcome != "acknowledged" and one.repeats))
    ]
    for host, spans in _by_host(stuck):
        directions = sorted({(one.sender, one.receiver) for one in spans})
        begin, end = min(one.begin_ns for one in spans), max(one.end_ns for one in spans)
        smallest = min(one.segment_bytes for one in spans)
        passed = [
            one
            for direction in directions
            for one in series.steps.get(direction, ())
            if begin // SECOND < one.begin_ns // SECOND < end // SECOND and one.trip_ns is not None
        ]
        largest = max((one.largest_acked for one in passed), default=0)
        if len(spans) < STUCK_SPANS or len(passed) < PASSED_STEPS or not 0 < largest < smallest:
            continue
        name = host_name(context, host)
        peers = sorted({host_name(context, one) for pair in directions for one in pair if one != host})
        yield _connection_signal(
            context,
            series,
            "large_segments_stuck",
            (SubjectKind.HOST, name),
            spans,
            None if end >= context.end_ns - 2 * SECOND else end,
            f"segments of {smallest:,} bytes or more between {name} and {listed(peers, PEERS_NAMED)} never "
            f"arrived from {format_clock(begin)} on, while segments of up to {largest:,} bytes did",
            {
                "smallest_stuck_bytes": smallest,
                "largest_acked_bytes": largest,
                "spans": len(spans),
                "times": sum(one.repeats for one in spans),
                "stuck_from": sum(one.sender == host for one in spans),
                "stuck_to": sum(one.receiver == host for one in spans),
            },
        )


def _by_host(spans: list[Standstill]) -> Iterator[tuple[str, list[Standstill]]]:
    """Yield the host with the most of these standstills, as sender or receiver, and so on with the rest."""
    left = spans
    while left:
        count = Counter(host for one in left for host in (one.sender, one.receiver))
        senders = Counter(one.sender for one in left)
        host = max(sorted(count), key=lambda name: (count[name], senders[name]))
        yield host, [one for one in left if host in (one.sender, one.receiver)]
        left = [one for one in left if host not in (one.sender, one.receiver)]


# Idle connections


def _dropped(context: SignalContext, series: PathSeries) -> Iterator[Signal]:
    facts = context.facts
    closed, is_closed = facts.columns.ints("closed_ns"), facts.columns.present("closed_ns")
    by_host: dict[str, list[Standstill]] = defaultdict(list)
    rows = facts.rows_of([one.connection for one in series.standstills])
    for one, row in zip(series.standstills, rows, strict=True):
        open_then = row >= 0 and not (is_closed[row] and closed[row] < one.begin_ns)
        unheard = one.outcome != "acknowledged" and (one.repeats >= IDLE_REPEATS or one.outcome == "reset")
        if one.idle_ns >= IDLE_NS and open_then and unheard and _others_pass(series, one):
            by_host[one.sender].append(one)
    for sender, spans in by_host.items():
        idle = format_duration(min(one.idle_ns for one in spans))
        host, first = host_name(context, sender), min(spans, key=lambda one: one.begin_ns)
        peer = host_name(context, first.receiver)
        yield _connection_signal(
            context,
            series,
            "idle_connection_dropped",
            (SubjectKind.PATH, f"{host} and {peer}"),
            spans,
            None,
            f"{counted(len({one.connection for one in spans}), 'connection')} from {host} got no "
            f"acknowledgment "
            f"any more after {idle} of silence, first at {format_clock(first.begin_ns)}",
            {"idle_ns": min(one.idle_ns for one in spans), "repeats": sum(one.repeats for one in spans)},
        )


def _others_pass(series: PathSeries, span: Standstill) -> bool:
    """Return whether other data on the same path was acknowledged while one connection stood still."""
    return any(
        one.trip_ns is not None
        for one in series.steps.get((span.sender, span.receiver), ())
        if span.begin_ns // SECOND
        < one.begin_ns // SECOND
        <= max(span.end_ns, span.begin_ns + 3 * SECOND) // SECOND
    )


# Windows


def _closed_windows(context: SignalContext) -> Iterator[Signal]:
    columns = context.table(STANDSTILLS)
    is_closed = columns.equals("kind", "window_closed") & columns.bools("to_server")
    closed = columns.filter(is_closed).dicts("connection", "begin_ns", "end_ns")
    by_client: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for span, row in zip(closed, context.facts.rows_of([span["connection"] for span in closed]), strict=True):
        if row >= 0:
            by_client[context.client_names[int(context.connections.client[row])]].append(span | {"row": row})
    for client, spans in by_client.items():
        long = [span for span in spans if span["end_ns"] - span["begin_ns"] >= CLOSED_NS]
        total = sum(span["end_ns"] - span["begin_ns"] for span in long)
        if not long or (len(long) < CLOSED_SPANS and total < CLOSED_TOTAL_NS):
            continue
        begin, end = min(span["begin_ns"] for span in long), max(span["end_ns"] for span in long)
        rows = np.unique([span["row"] for span in long])
        servers = np.unique(context.connections.server[rows]).tolist()
        longest = max(span["end_ns"] - span["begin_ns"] for span in long)
        yield make_signal(
            "window_closed",
            (SubjectKind.CLIENT, client),
            (begin, None if end >= context.end_ns - SECOND else end),
            f"{client} closed its receive window {counted(len(long), 'time')} from {format_clock(begin)} "
            f"on, for "
            f"{format_duration(total)} in all and up to {format_duration(longest)}",
            measures={"times": len(long), "closed_ns": total, "longest_ns": longest},
            servers=[context.server_names[number] for number in servers],
            requests=len(long),
            wait_ns=total,
            evidence=[chosen_evidence(context.rules, client, "window closed", rows)],
        )
