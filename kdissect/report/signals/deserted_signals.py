"""The signal `leader_deserted`: all followers stop to fetch from a broker to which clients go on to write.

Followers fetch from a leader all the time, every 500 ms at the latest, as long as it leads a partition for
them. When the controller gives its partitions to others, all of them stop within a moment. A broker that
hears of it refuses writes from then on. One that is cut off from its controller takes them, and nobody
copies them.
"""

from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from kdissect.protocol.api_keys import ApiKey
from kdissect.report.aggregate.grouping import TableColumns
from kdissect.report.model.incidents import Signal, SubjectKind
from kdissect.report.signals.kinds import SignalCounts, SignalKind
from kdissect.report.signals.make_signal import make_signal
from kdissect.report.signals.named_rows import client_rows, server_rows
from kdissect.report.signals.server_names import follower_of
from kdissect.report.signals.signal_context import SignalContext
from kdissect.report.timeline.signal_tables import PACE
from kdissect.report.wording import TO_THE_END, counted, listed
from kdissect.text import format_clock

SECOND = 10**9
DESERTED_KINDS = (
    SignalKind(
        "leader_deserted", "followers stop to fetch from a broker that takes writes", SignalCounts.OTHER
    ),
)
FOLLOWERS, FETCHES = 2, 10
"""So many followers, each with so many fetches before, tell that a broker led."""

TOGETHER_NS, SILENT_NS = SECOND, 5 * SECOND
"""Followers that learn of another leader stop within this time of each other, and for so long."""

WRITES, AFTER_NS = 5, 2 * SECOND
"""So many writes since then, the first of them that much later at least, were no writes on their way."""

NAMED = 3


def deserted_signals(context: SignalContext) -> Iterator[Signal]:
    """Yield one signal for each broker that all its followers left, and that still takes writes."""
    pace = context.table(PACE)
    servers = server_rows(pace, context.servers)
    fetches = pace.ints("api_key") == ApiKey.FETCH
    ids = pace.text("client_id")
    nodes = [-1 if (node := follower_of(text)) is None else node for text in ids.texts.to_pylist()]
    followers = np.array([*nodes, -1], np.int64)[ids.numbers]
    for name in servers.present():
        own = servers.equal(name)
        last: dict[int, int] = defaultdict(int)
        for node in np.unique(followers[own & fetches & (followers >= 0)]).tolist():
            rows = own & fetches & (followers == node)
            if int(pace.ints("exchanges")[rows].sum()) >= FETCHES:
                last[node] = int(pace.ints("last_ns")[rows].max())
        left = sorted(last.values())
        if len(left) < FOLLOWERS or left[-1] - left[0] > TOGETHER_NS or context.end_ns - left[-1] < SILENT_NS:
            continue
        later = pace.ints("first_ns") >= left[-1] + AFTER_NS
        alive = [bool((later & servers.equal(context.servers.of_node(node))).any()) for node in last]
        if not all(alive):
            continue  # they stopped with all they did
        answered = pace.present("cell") & (pace.ints("cell") >= 0)
        writes = pace.filter(own & later & answered & (pace.ints("api_key") == ApiKey.PRODUCE))
        if _accepted(writes) >= WRITES:
            yield _deserted(context, name, writes, sorted(last), left[0])


def _accepted(writes: TableColumns) -> int:
    """Return how many writes were not refused."""
    return int((writes.ints("exchanges") - writes.ints("error_responses")).sum())


def _deserted(
    context: SignalContext, name: str, writes: TableColumns, nodes: list[int], begin: int
) -> Signal:
    clients = client_rows(writes).present()
    followers = [context.servers.of_node(node) for node in nodes]
    count = _accepted(writes)
    return make_signal(
        "leader_deserted",
        (SubjectKind.SERVER, name),
        (begin, None),
        f"{listed(followers, NAMED)} stopped to fetch from {name} together at {format_clock(begin)}, "
        f"{TO_THE_END}, while {counted(count, 'write')} of {listed(clients, NAMED)} went to it",
        measures={"writes": count, "followers": len(nodes)},
        clients=clients,
        requests=count,
    )
