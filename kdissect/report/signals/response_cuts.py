"""The signal `responses_cut`: a client closes the connection in the middle of a response, again and again.

The size of a response is in its first four bytes. A client that allows less closes the connection at once,
connects again and asks for the same: fewer bytes came to it than the responses of the connection have.
"""

from collections.abc import Iterator

import numpy as np

from kdissect.array_types import Int64s
from kdissect.protocol.api_keys import ApiKey
from kdissect.report.aggregate.partial_tables import CALLS
from kdissect.report.findings.connection_evidence import chosen_evidence
from kdissect.report.model.incidents import Signal, SubjectKind
from kdissect.report.signals.client_names import ClientFacts
from kdissect.report.signals.kinds import SignalCounts, SignalKind
from kdissect.report.signals.log_positions import LogPositions
from kdissect.report.signals.make_signal import make_signal
from kdissect.report.signals.signal_context import SignalContext
from kdissect.report.wording import counted, listed
from kdissect.text import format_clock, format_duration, format_size

SECOND = 10**9
RESPONSE_KINDS = (
    SignalKind("responses_cut", "a client closes connections in the middle of a response", SignalCounts.CUT),
)
REPEATED, LASTED_NS, LIFE_NS = 4, 2 * SECOND, 5 * SECOND
"""So many connections that ended so, over such a time, each soon after it was opened."""

CUT_BYTES = 4 << 10
"""Fewer bytes than this that did not come may be of a response to a client that ended."""

ENDED_NS = 10 * SECOND
"""A signal that was seen this shortly before the end of the capture lasts to its end: clients back off."""

NAMED = 3


def response_signals(context: SignalContext) -> Iterator[Signal]:
    """Yield the clients that close connections in the middle of a response to Fetch."""
    columns, facts = context.facts.columns, context.connections
    expected, largest = _expected(context)
    cut = facts.talks & facts.ends & ~facts.by_server & columns.equals("closed_by", "client")
    cut &= columns.equals("opened", "handshake") & ~context.facts.doubtful & (largest > 0)
    cut &= facts.closed_ns - facts.first_ns <= LIFE_NS
    cut &= expected - columns.ints("bytes_to_client") >= CUT_BYTES
    for client in np.unique(facts.client[cut]).tolist():
        rows = np.flatnonzero(cut & (facts.client == client))
        begin, last = int(facts.closed_ns[rows].min()), int(facts.closed_ns[rows].max())
        if len(rows) >= REPEATED and last - begin >= LASTED_NS:
            yield _cut(context, rows, (begin, last), int(largest[rows].max()))


def _expected(context: SignalContext) -> tuple[Int64s, Int64s]:
    """Return the bytes of all responses of each connection, and of its largest one to Fetch, as a mean."""
    calls = context.table(CALLS)
    at = context.facts.rows(calls)
    calls, at = calls.filter(at >= 0), at[at >= 0]
    count = context.facts.columns.rows
    expected, largest = np.zeros(count, np.int64), np.zeros(count, np.int64)
    np.add.at(expected, at, calls.ints("response_bytes"))
    mean = calls.ints("response_bytes") // np.maximum(calls.ints("exchanges"), 1)
    np.maximum.at(largest, at, np.where(calls.ints("api_key") == ApiKey.FETCH, mean, 0))
    return expected, largest


def _cut(context: SignalContext, rows: Int64s, span: tuple[int, int], size: int) -> Signal:
    facts, about = context.connections, context.shared(ClientFacts)
    client, (begin, last) = context.client_names[int(facts.client[rows[0]])], span
    groups = sorted(about.groups.get(client, ()))
    topics = sorted({topic for name, topic in context.shared(LogPositions).fetched if name == client})
    of_group = f" (group {listed(groups, NAMED)})" if groups else ""
    of_topics = f" of {listed(topics, NAMED)}" if topics else ""
    servers = [context.server_names[number] for number in np.unique(facts.server[rows]).tolist()]
    return make_signal(
        "responses_cut",
        (SubjectKind.CLIENT, client),
        (begin, None if context.end_ns - last < ENDED_NS else last),
        f"{client}{of_group} closes its connection in the middle of a Fetch response{of_topics} of "
        f"{format_size(size)} again and again: {counted(len(rows), 'time')} from {format_clock(begin)} for "
        f"{format_duration(last - begin)}",
        measures={"connections": len(rows), "lasted_ns": last - begin, "bytes": size},
        servers=servers,
        clients=[client],
        groups=groups,
        topics=topics,
        requests=len(rows),
        evidence=[chosen_evidence(context.rules, client, "closed in a response", rows)],
    )
