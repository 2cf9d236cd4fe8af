"""A signal about connections that are reset one by one, while their clients and servers go on.

    connections_reset       connections of one host are reset again and again, and opened anew each time

A process that ends resets all of its connections together, and so does a server that dies. A box on the way
that ends connections does so with one after the other: other connections of the same client, and of the same
server, go on. It sends a reset to both ends in the name of the other, so who sent it tells nothing.
"""

from collections.abc import Iterator

import numpy as np

from kdissect.array_types import Int64s
from kdissect.report.findings.connection_evidence import chosen_evidence
from kdissect.report.model.incidents import Signal, SubjectKind
from kdissect.report.signals.kinds import SignalCounts, SignalKind
from kdissect.report.signals.make_signal import make_signal
from kdissect.report.signals.network_signals import host_name
from kdissect.report.signals.signal_context import SignalContext
from kdissect.report.wording import counted, listed
from kdissect.text import format_clock, format_duration

SECOND = 10**9
RESET_KINDS = (SignalKind("connections_reset", "connections of one host are reset", SignalCounts.CUT),)
RESETS, LASTED_NS, STEPS = 6, 5 * SECOND, 4
"""So many resets, over such a time, in so many of its seconds."""

MOST_LOOKED = 1_000
"""Each look goes through all connections; of more resets than that, some are looked at, evenly spread."""

AFTER_NS = SECOND // 2
"""Others that go on for so long after a reset do not end with it."""

AGAIN_NS = 5 * SECOND
SHARE = 0.75
"""The part of all such resets that a host must have if it is the one that is concerned."""

ALIKE = 1.6
"""Ages of which the longest is at most so many times the shortest come from one limit."""

NAMED = 3


def reset_signals(context: SignalContext) -> Iterator[Signal]:
    """Yield one signal for the client host whose connections are reset, if it has nearly all resets."""
    columns, facts = context.facts.columns, context.connections
    reset = columns.equals("closed", "rst") & facts.talks & facts.ends & (columns.ints("responses") > 0)
    rows = np.flatnonzero(reset)
    rows = rows[:: 1 + len(rows) // MOST_LOOKED]
    alone = np.array([row for row in rows.tolist() if _is_alone(context, row)], np.int64)
    hosts, counts = np.unique(facts.host[alone], return_counts=True)
    for host in hosts[counts >= SHARE * len(alone)].tolist():
        rows = alone[facts.host[alone] == host]
        times = facts.closed_ns[rows]
        lasted = int(times.max() - times.min())
        if len(rows) >= RESETS and lasted >= LASTED_NS and len(np.unique(times // SECOND)) >= STEPS:
            yield _resets(context, rows)


def _is_alone(context: SignalContext, row: int) -> bool:
    """Return whether others of the client and of the server go on, and the client connects there again."""
    facts = context.connections
    time_ns = int(facts.closed_ns[row])
    goes_on = facts.talks & (facts.first_ns < time_ns) & (facts.closed_ns > time_ns + AFTER_NS)
    own, server = facts.client == facts.client[row], facts.server == facts.server[row]
    again = own & server & (facts.first_ns > facts.first_ns[row]) & (facts.first_ns >= time_ns - SECOND)
    again &= facts.first_ns <= time_ns + AGAIN_NS
    return bool((goes_on & own).any() and (goes_on & server).any() and again.any())


def _resets(context: SignalContext, rows: Int64s) -> Signal:
    columns, facts = context.facts.columns, context.connections
    begin, last = int(facts.closed_ns[rows].min()), int(facts.closed_ns[rows].max())
    host = columns.arrow("client_host")[int(rows[0])].as_py()
    name, clients = host_name(context, host), context.clients_of(rows)
    servers = [context.server_names[number] for number in np.unique(facts.server[rows]).tolist()]
    late = rows[facts.first_ns[rows] >= begin]  # opened since it began
    ages = np.sort(facts.closed_ns[late] - facts.first_ns[late])
    low, high = (int(np.quantile(ages, part)) if len(ages) else 0 for part in (0.1, 0.9))
    one_age = bool(len(ages) >= RESETS // 2 and high <= ALIKE * low)
    age = f", each about {format_duration(int(np.median(ages)))} after it was opened" if one_age else ""
    return make_signal(
        "connections_reset",
        (SubjectKind.HOST, name),
        (begin, None if context.end_ns - last < AGAIN_NS else last),
        f"connections of {name} are reset again and again since {format_clock(begin)}: "
        f"{counted(len(rows), 'connection')} of {listed(clients, NAMED)} to {listed(servers, NAMED)} in "
        f"{format_duration(last - begin)}{age}, while others of the same clients went on",
        measures={"connections": len(rows), "lasted_ns": last - begin, "one_age": int(one_age)},
        servers=servers,
        clients=clients,
        requests=len(rows),
        evidence=[chosen_evidence(context.rules, name, "reset", rows)],
    )
