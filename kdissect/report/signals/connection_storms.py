"""Signals about clients that open connections without end.

connections_storm       a client opens connections again and again
client_restarts         a producer ends soon after each start, and is started again
"""

from collections.abc import Iterator

import numpy as np

from kdissect.array_types import Bools, Int64s
from kdissect.report.model.incidents import Signal, SubjectKind
from kdissect.report.signals.client_names import ClientFacts, stem_of
from kdissect.report.signals.dense_spans import SECOND, WINDOW_NS, a_second, dense_span, until
from kdissect.report.signals.kinds import SignalCounts, SignalKind
from kdissect.report.signals.make_signal import make_signal
from kdissect.report.signals.named_rows import NamedRows, name_rows
from kdissect.report.signals.signal_context import SignalContext
from kdissect.report.wording import counted
from kdissect.text import format_clock, format_duration

CONNECTION_KINDS = (
    SignalKind("connections_storm", "a client opens connections all the time", SignalCounts.ATTEMPTS),
    SignalKind("client_restarts", "a producer starts again and again", SignalCounts.ATTEMPTS),
)
CONNECTION_RATE = 4
"""Times a second over `WINDOW_NS`, from which on it is a signal."""

START_NS, KEPT_SHARE = 10 * SECOND, 0.7
"""Processes that start together have opened their connections within this, and keep most."""

SHORT_NS = 5 * SECOND
"""A connection that ends sooner was opened for one thing."""

RESTARTS, LIFE_NS, AWAY_NS = 5, (SECOND // 3, 30 * SECOND), 15 * SECOND
"""So many lives of a process, each so long, with less than this between them: it does not stay alive."""


def connection_storms(context: SignalContext) -> Iterator[Signal]:
    """Yield the signals about connections that are opened without end."""
    yield from _openings(context)
    yield from _restarts(context)


def _openings(context: SignalContext) -> Iterator[Signal]:
    """Yield who opens connections again and again: clients, or hosts whose connections carry nothing."""
    facts, columns = context.connections, context.facts.columns
    opened = columns.equals("opened", "handshake")
    talks = opened & facts.talks
    short = talks & facts.ends & (facts.closed_ns - facts.first_ns < SHORT_NS)
    empty = (columns.ints("bytes_to_server") == 0) & columns.present("server_rtt_ns")
    clients = NamedRows(facts.client, tuple(context.client_names))
    found = list(_opened_by(context, clients, talks, SubjectKind.CLIENT, ""))
    if not found:
        stems = name_rows(columns, ("client_id", "client_host"), _stem_text)
        found += _opened_by(context, stems, short, SubjectKind.CLIENT, " for a moment")
    attempts = opened & ~facts.talks & empty
    hosts = name_rows(columns, ("client_host", "client_host"), lambda host, _: host or "?")
    found += _opened_by(context, hosts, attempts, SubjectKind.HOST, " without a request")
    yield from found


def _stem_text(client_id: str | None, host: str | None) -> str:
    return f"{stem_of(client_id or '')}-… at {host}"


def _opened_by(
    context: SignalContext, subjects: NamedRows, chosen: Bools, kind: SubjectKind, how: str
) -> Iterator[Signal]:
    """Yield those among subjects of chosen connections that open many of them over a while."""
    counts = np.bincount(subjects.of[chosen], minlength=len(subjects.names))
    for number in np.flatnonzero(counts >= CONNECTION_RATE * WINDOW_NS // SECOND).tolist():
        subject, rows = subjects.names[number], np.flatnonzero(chosen & (subjects.of == number))
        times = np.sort(context.connections.first_ns[rows])
        span = dense_span(times, np.ones(len(times), np.int64), CONNECTION_RATE)
        if span is None:
            continue
        begin, end, count = span
        if _is_start(context, rows, begin, end):
            continue
        who = f"Host {subject}" if kind is SubjectKind.HOST else subject
        yield make_signal(
            "connections_storm",
            (kind, subject),
            (begin, until(context, end)),
            f"{who} opened {counted(count, 'connection')}{how}, {a_second(count, begin, end)}, from "
            f"{format_clock(begin)} for {format_duration(end - begin)}",
            measures={"count": count, "lasted_ns": end - begin},
            clients=context.clients_of(rows) if kind is SubjectKind.CLIENT else (),
            requests=count,
        )


def _is_start(context: SignalContext, rows: Int64s, begin: int, end: int) -> bool:
    """Return whether processes of one name started together: each opens connections once, and keeps them."""
    first_ns, ends = context.connections.first_ns[rows], context.connections.ends[rows]
    own = (first_ns >= begin) & (first_ns <= end)
    kept = ~ends[own] | (context.connections.closed_ns[rows][own] > end + WINDOW_NS)
    later = np.count_nonzero(first_ns > end)
    settled = context.end_ns - end >= WINDOW_NS and 2 * later <= len(kept)
    return bool(end - begin < START_NS and settled and kept.mean() >= KEPT_SHARE)


def _restarts(context: SignalContext) -> Iterator[Signal]:
    """Yield producers whose connections all end together, and are all opened anew, again and again.

    Members of groups have a signal of their own (`member_restarts`).
    """
    facts, about = context.connections, context.shared(ClientFacts)
    whole = facts.ends & ~facts.by_server & context.facts.columns.equals("opened", "handshake")
    rows = np.flatnonzero(facts.talks)
    rows = rows[np.lexsort((facts.first_ns[rows], facts.client[rows]))]
    for own in np.split(rows, np.flatnonzero(np.diff(facts.client[rows])) + 1):
        client = context.client_names[int(facts.client[own[0]])] if len(own) >= RESTARTS else ""
        if not client or client in about.groups or not about.produced(client):
            continue
        lives = _lives(context, own, whole)
        if len(lives) < RESTARTS:
            continue
        begin, last = lives[0][0], lives[-1][1]
        typical = sorted(end - first for first, end in lives)[len(lives) // 2]
        yield make_signal(
            "client_restarts",
            (SubjectKind.CLIENT, client),
            (begin, until(context, last)),
            f"{client} started {counted(len(lives), 'time')} from {format_clock(begin)} for "
            f"{format_duration(last - begin)}, and ended about {format_duration(typical)} after each start",
            measures={"count": len(lives), "lasted_ns": last - begin, "life_ns": typical},
            clients=[client],
            requests=len(lives),
        )


def _lives(context: SignalContext, rows: Int64s, whole: Bools) -> list[tuple[int, int]]:
    """Return the longest run of lives of a process: spans in which connections of a client overlap.

    `rows` are in the order of their beginnings. A life that was begun before the capture, is not over, or
    that a server ended, is not `whole` and breaks a run.
    """
    runs: list[list[tuple[int, int]]] = [[]]
    for begin, end, is_whole in _spans(context, rows, whole):
        is_life = is_whole and LIFE_NS[0] <= end - begin <= LIFE_NS[1]
        if not is_life or (runs[-1] and begin - runs[-1][-1][1] > AWAY_NS):
            runs.append([])
        if is_life:
            runs[-1].append((begin, end))
    return max(runs, key=len)


def _spans(context: SignalContext, rows: Int64s, whole: Bools) -> Iterator[tuple[int, int, bool]]:
    """Yield the begin and end of spans in which connections overlap, and whether all of them are whole.

    A client closes its first connection when it knows the brokers, and then opens others. So a short span is
    the beginning of the one that follows at once.
    """
    facts = context.connections
    starts = np.maximum.accumulate(facts.closed_ns[rows])[:-1] < facts.first_ns[rows][1:]
    before: tuple[int, int, bool] | None = None
    for part in np.split(rows, np.flatnonzero(starts) + 1):
        begin, end = int(facts.first_ns[part].min()), int(facts.closed_ns[part].max())
        is_whole = bool(whole[part].all())
        if before is not None:
            if before[1] - before[0] < LIFE_NS[0] and begin - before[1] < LIFE_NS[0]:
                begin, is_whole = before[0], is_whole and before[2]
            else:
                yield before
        before = begin, end, is_whole
    if before is not None:
        yield before
