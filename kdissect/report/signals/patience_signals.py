"""Signals about clients that end a connection before the broker may answer.

    closed_while_waiting    a client closes its connections, while a fetch waits on them as it asked for

A consumer lets the broker hold a fetch for a while (fetch.max.wait.ms). One whose request timeout is shorter
closes the connection each time that no record comes, and opens another one. The connections of such a
client all end at one age, and its fetches last longer than that: so their answers come too late.
"""

from collections.abc import Iterator

import numpy as np

from kdissect.array_types import Bools, Int64s
from kdissect.protocol.api_keys import ApiKey
from kdissect.report.findings.connection_evidence import chosen_evidence
from kdissect.report.model.incidents import Signal, SubjectKind
from kdissect.report.signals.kinds import SignalCounts, SignalKind
from kdissect.report.signals.make_signal import make_signal
from kdissect.report.signals.signal_context import SignalContext
from kdissect.report.timeline.signal_tables import NO_PACE_CELL, PACE
from kdissect.report.wording import client_text, counted
from kdissect.text import format_clock, format_duration

PATIENCE_KINDS = (
    SignalKind(
        "closed_while_waiting", "a client closes connections on which a fetch waits", SignalCounts.CUT
    ),
)

SECOND = 10**9
REPEATED = 8
SAME_AGE = 0.25
"""Ages within this part of their median are the same one: a busy client notices late that time is up."""

ALIKE = 0.5
"""At least so many of the connections end at that age, and so many of the fetches last longer."""

LEAST_NS, MOST_NS = SECOND // 20, 60 * SECOND
"""Ages that a timeout can have: a check of a port is over sooner."""


def patience_signals(context: SignalContext) -> Iterator[Signal]:
    """Yield one signal for each client whose connections end at one age, before its fetches do."""
    facts = context.connections
    ended = facts.talks & facts.ends & ~facts.by_server & context.facts.columns.equals("opened", "handshake")
    counts = np.bincount(facts.client[ended], minlength=len(context.client_names))
    suspects = np.flatnonzero(counts >= REPEATED).tolist()
    waits = _waits_by_client(context) if suspects else {}
    for client in suspects:
        rows = np.flatnonzero(ended & (facts.client == client))
        ages = facts.closed_ns[rows] - facts.first_ns[rows]
        age = int(np.median(ages))
        alike: Bools = np.abs(ages - age) <= SAME_AGE * age
        late = sum(
            number for held_ns, number in waits.get(context.client_names[client], ()) if held_ns >= age
        )
        if LEAST_NS <= age <= MOST_NS and min(int(alike.sum()), late) >= max(ALIKE * len(rows), REPEATED):
            yield _impatient(context, context.client_names[client], rows, age)


def _waits_by_client(context: SignalContext) -> dict[str, list[tuple[int, int]]]:
    """Return how long fetches of each client waited by design, with their number."""
    pace = context.table(PACE)
    pace = pace.filter((pace.ints("api_key") == ApiKey.FETCH) & (pace.ints("cell") == NO_PACE_CELL))
    ids, hosts = (pace.values(name) for name in ("client_id", "client_host"))
    numbers = pace.ints("exchanges")
    means = pace.ints("held_ns") // np.maximum(numbers, 1)
    waits: dict[str, list[tuple[int, int]]] = {}
    for client_id, host, mean, number in zip(ids, hosts, means.tolist(), numbers.tolist(), strict=True):
        waits.setdefault(client_text(client_id, host), []).append((mean, number))
    return waits


def _impatient(context: SignalContext, client: str, rows: Int64s, age_ns: int) -> Signal:
    facts = context.connections
    begin, last = int(facts.first_ns[rows].min()), int(facts.closed_ns[rows].max())
    servers = sorted({context.server_names[number] for number in facts.server[rows].tolist()})
    return make_signal(
        "closed_while_waiting",
        (SubjectKind.CLIENT, client),
        (begin, None if context.end_ns - last < 5 * SECOND else last),
        f"{client} gives up its fetches too soon: from {format_clock(begin)} on it closed "
        f"{counted(len(rows), 'connection')}, typically {format_duration(age_ns)} old, while a broker still "
        "waited for records as the fetch had asked",
        measures={"connections": len(rows), "age_ns": age_ns},
        servers=servers,
        clients=[client],
        requests=len(rows),
        evidence=[chosen_evidence(context.rules, client, "closed by the client while a fetch waited", rows)],
    )
