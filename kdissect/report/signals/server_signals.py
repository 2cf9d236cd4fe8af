"""Signals about servers: how they fall silent, end, and refuse.

server_silent       no byte from the server on any connection for a second or more, while requests of
two or more connections waited
connections_ended   most connections of the server ended within a moment, and their clients went on
attempts_refused    attempts to connect that the server's host refused
shutdown_asked      a broker asked the controller to take its partitions over and to let it end
"""

from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from kdissect.array_types import Bools, Int64s
from kdissect.protocol.api_keys import GROUP_BARRIERS, LONG_POLLS
from kdissect.report.aggregate.grouping import TableColumns
from kdissect.report.findings.connection_evidence import chosen_evidence
from kdissect.report.model.findings import Evidence
from kdissect.report.model.incidents import Signal, SubjectKind
from kdissect.report.signals.follower_pace import FollowerFetches, follower_fetches
from kdissect.report.signals.kinds import SignalCounts, SignalKind
from kdissect.report.signals.make_signal import make_signal
from kdissect.report.signals.named_rows import server_rows
from kdissect.report.signals.replicated import REPLICATED
from kdissect.report.signals.signal_context import SignalContext
from kdissect.report.signals.waiting import Waiting, located_waits, waiting_text, who_waits
from kdissect.report.timeline.signal_tables import REPLIES, SHUTDOWNS, WAITS
from kdissect.report.wording import UNTIL_THE_END, counted
from kdissect.text import LOOPBACK_HOSTS, format_clock, format_duration

SERVER_KINDS = (
    SignalKind("server_silent", "no byte from a server while requests waited", SignalCounts.WAITS),
    SignalKind("connections_ended", "most connections of a server ended together", SignalCounts.CUT),
    SignalKind("attempts_refused", "attempts to connect were refused", SignalCounts.ATTEMPTS),
    SignalKind("shutdown_asked", "a broker announced its end to the controller", SignalCounts.NOTHING),
)

SECOND = 10**9
SILENT_NS = SECOND
"""A shorter silence is not worth a signal: garbage collection and busy hosts pause for less."""

SILENT_CONNECTIONS, BUSY_RESPONSES = 2, 20
ASKED_LATER_NS = SECOND // 2
"""Requests that are sent this long after a server fell silent come from clients that did not."""

TOGETHER_NS = SECOND // 4
ENDED_SHARE = 0.6
"""The part of a server's open connections that ends together when the server itself ends."""

WENT_ON_NS = SECOND // 20
"""A client that is seen this long after its connections ended did not end itself."""

AROUND_NS = 10 * SECOND
"""How far before and after a silence the pace of the other brokers is looked at."""

ASKS_AGAIN_NS = 5 * SECOND
"""A broker that waits for its end asks again with each heartbeat, every 2 s."""

APART_NS = 15 * SECOND
"""Refused attempts with less than this between them are of one spell: clients back off for seconds."""


def server_signals(context: SignalContext) -> Iterator[Signal]:
    """Yield the signals about servers."""
    yield from _silences(context)
    yield from _ends(context)
    yield from _refusals(context)
    yield from _shutdowns(context)


def _shutdowns(context: SignalContext) -> Iterator[Signal]:
    """Yield a signal for each time a broker asked for its shutdown, however often it asked again."""
    asked: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for node_id, first, last in context.values(SHUTDOWNS, "node_id", "first_ns", "last_ns"):
        if node_id is not None:
            asked[node_id].append((first, last))
    for node_id, times in asked.items():
        name, asked_ns = context.servers.of_node(node_id), 0
        for begin, last in sorted(times):
            again, asked_ns = begin - asked_ns < ASKS_AGAIN_NS, last
            if again:
                continue
            yield make_signal(
                "shutdown_asked",
                (SubjectKind.SERVER, name),
                (begin, begin),
                f"{name} asked the controller to take its partitions over, at {format_clock(begin)}",
            )


def _silences(context: SignalContext) -> Iterator[Signal]:
    replies, waits = context.table(REPLIES), context.table(WAITS)
    located, fetches = context.shared(located_waits), context.shared(follower_fetches)
    replying, waiting_for = (server_rows(table, context.servers) for table in (replies, waits))
    for number, name in enumerate(context.server_names):
        spans = _gaps(replies, np.flatnonzero(replying.equal(name)), (context.begin_ns, context.end_ns))
        for span in spans:
            rows = _waiting(waits, located & waiting_for.equal(name), *span, context.end_ns)
            silent = who_waits(context, rows)
            if silent.are_several or _is_only_one(context, number, silent.connections, span):
                pace = _rival_reaction_ns(context, fetches, name, span)
                yield from _silence(context, name, waits, rows, silent, span, pace)


def _gaps(replies: TableColumns, rows: Int64s, span_ns: tuple[int, int]) -> list[tuple[int, int]]:
    """Return the long spans of a server without a reply, those at both ends of the capture too.

    A server that never replies is none that fell silent.
    """
    if not len(rows):
        return []
    order = rows[np.argsort(replies.ints("first_ns")[rows], kind="stable")]
    first = np.append(replies.ints("first_ns")[order], span_ns[1])
    last = np.maximum.accumulate(np.append(span_ns[0], replies.ints("last_ns")[order]))
    wide = np.flatnonzero(first - last >= SILENT_NS)
    return list(zip(last[wide].tolist(), first[wide].tolist(), strict=True))


def _waiting(waits: TableColumns, chosen: Bools, begin: int, end: int, capture_end: int) -> Int64s:
    """Return the rows of WAITS, among chosen ones, with requests that waited over a span for `SILENT_NS`."""
    answered = waits.present("last_end_ns")
    began = waits.ints("first_begin_ns")
    over = chosen & (began <= end - SILENT_NS)
    over &= np.where(answered, waits.ints("last_end_ns") >= end, waits.ints("last_begin_ns") >= begin)
    rows = np.flatnonzero(over) if end <= capture_end else np.zeros(0, np.int64)
    patient = np.isin(waits.ints("api_key")[rows], [*GROUP_BARRIERS, *LONG_POLLS])
    return rows[answered[rows] | ~patient]


def _is_only_one(context: SignalContext, number: int, silent: Int64s, span: tuple[int, int]) -> bool:
    """Return whether a server has one busy connection during a span, and that one waits."""
    facts = context.connections
    across = facts.talks & (facts.server == number) & (facts.first_ns <= span[0]) & (facts.last_ns >= span[1])
    busy = context.facts.columns.ints("responses")[silent] >= BUSY_RESPONSES
    return len(silent) == 1 and int(across.sum()) == 1 and bool(busy.all())


def _silence(
    context: SignalContext,
    name: str,
    waits: TableColumns,
    waiting: Int64s,
    silent: Waiting,
    span: tuple[int, int],
    rival_reaction_ns: int,
) -> Iterator[Signal]:
    earliest = int(waits.ints("first_begin_ns")[waiting].min())
    begin = max(span[0], min(earliest, span[1]))
    begin = span[0] if begin - span[0] < SECOND else begin
    if span[1] - begin < SILENT_NS:
        return
    replicated = np.isin(waits.ints("api_key")[waiting], list(REPLICATED))
    began = np.maximum(waits.ints("first_begin_ns")[waiting], begin)
    wait_ns = int(((span[1] - began) * waits.ints("exchanges")[waiting]).sum())
    to_the_end = span[1] == context.end_ns
    lasted = format_duration(span[1] - begin)
    yield make_signal(
        "server_silent",
        (SubjectKind.SERVER, name),
        (begin, None if to_the_end else span[1]),
        f"{name} sent no byte on any connection from {format_clock(begin)} for {lasted}, while "
        f"{waiting_text(silent.measures)} waited",
        measures={
            **silent.measures,
            "silent_ns": span[1] - begin,
            "own_requests": int(waits.ints("exchanges")[waiting][~replicated].sum()),
            "asked_later": int((waits.ints("last_begin_ns")[waiting] > begin + ASKED_LATER_NS).sum()),
            "rival_reaction_ns": rival_reaction_ns,
        },
        clients=silent.clients,
        requests=silent.requests,
        wait_ns=wait_ns,
        evidence=_connections(context, name, silent.connections, f"waited up to {lasted}"),
    )


def _rival_reaction_ns(
    context: SignalContext, fetches: FollowerFetches, name: str, span: tuple[int, int]
) -> int:
    """Return how long the other brokers take to their next replica fetch around a silence; 0: unknown."""
    grid = context.grid
    if grid is None:
        return 0
    others = fetches.of({follower for follower in fetches.followers if follower != name})
    begin, end = ((time_ns - grid.start_ns) // grid.step_ns for time_ns in span)
    around = AROUND_NS // grid.step_ns
    sides = range(max(begin - around, 0), begin), range(end + 1, end + 1 + around)
    return max(others.level_ns(side) or 0 for side in sides)


def _connections(context: SignalContext, name: str, rows: Int64s, detail: str) -> list[Evidence]:
    return [chosen_evidence(context.rules, name, detail, rows)] if len(rows) else []


def _ends(context: SignalContext) -> Iterator[Signal]:
    facts = context.connections
    for number, name in enumerate(context.server_names):
        own = np.flatnonzero(facts.talks & (facts.server == number))
        connections = _OpenConnections(context, number, own)
        ended = own[facts.ends[own]]
        ended = ended[np.argsort(facts.closed_ns[ended], kind="stable")]
        breaks = np.flatnonzero(np.diff(facts.closed_ns[ended]) > TOGETHER_NS) + 1
        for rows in np.split(ended, breaks):
            if len(rows) >= SILENT_CONNECTIONS:
                yield from _end(context, name, connections, rows)


class _OpenConnections:
    """The connections of a server as time goes on: which are open, and whose clients are seen later.

    Moments are asked for in the order of time, so a capture of many connections is gone through once.
    """

    def __init__(self, context: SignalContext, server: int, own: Int64s) -> None:
        facts = self._facts = context.connections
        self._by_begin = own[np.argsort(facts.first_ns[own], kind="stable")]
        self._begins = facts.first_ns[self._by_begin]
        self._open, self._begun = own[:0], 0
        self._attempts = np.flatnonzero((facts.server == server) & ~facts.talks)

    def open_at(self, time_ns: int) -> Int64s:
        """Return the rows of the connections that are open at a moment, which is not before the last one."""
        begun = int(np.searchsorted(self._begins, time_ns, side="right"))
        known = np.append(self._open, self._by_begin[self._begun : begun])
        self._open, self._begun = known[self._facts.closed_ns[known] >= time_ns], begun
        return self._open

    def begun_after(self, time_ns: int) -> int:
        """Return when the next connection after a moment begins, 0 if none does."""
        following = int(np.searchsorted(self._begins, time_ns, side="right"))
        return int(self._begins[following]) if following < len(self._begins) else 0

    def went_on(self, rows: Int64s, span: tuple[int, int]) -> Bools:
        """Return which clients of connections are seen later, on other connections or by attempts."""
        facts, attempts = self._facts, self._attempts
        begin_ns, later_ns = span[0], span[1] + WENT_ON_NS
        went_on = facts.client_last_ns[facts.client[rows]] > later_ns
        tried = attempts[(facts.last_ns[attempts] > later_ns) & (facts.first_ns[attempts] >= begin_ns)]
        return went_on | np.isin(facts.host[rows], facts.host[tried])


def _end(context: SignalContext, name: str, connections: _OpenConnections, rows: Int64s) -> Iterator[Signal]:
    """Yield a signal if these connections, which ended within a moment, are most of those that were open."""
    facts = context.connections
    begin, end = int(facts.closed_ns[rows].min()), int(facts.closed_ns[rows].max())
    alive = connections.open_at(begin)
    # Connections that were accepted after the first of these had ended did not end with it.
    rows = rows[facts.first_ns[rows] <= begin]
    rows = rows[facts.by_server[rows] | connections.went_on(rows, (begin, end))]
    if len(rows) < max(SILENT_CONNECTIONS, ENDED_SHARE * len(alive)):
        return
    clients = [len(np.unique(facts.client[members])) for members in (rows, alive)]
    stayed = np.count_nonzero(facts.closed_ns[alive] > end + SECOND)
    if clients[0] < ENDED_SHARE * clients[1] or stayed > len(rows) / 2:
        return
    complete = rows[~context.facts.doubtful[rows]]
    cut = int(context.facts.columns.ints("unanswered")[complete].sum())
    cut_text = f"; {counted(cut, 'request')} got no response" if cut else ""
    yield make_signal(
        "connections_ended",
        (SubjectKind.SERVER, name),
        (begin, end),
        f"{counted(len(rows), 'connection')} to {name} ended within {format_duration(end - begin)} at "
        f"{format_clock(begin)}{cut_text}",
        measures={
            "connections": len(rows),
            "cut": cut,
            "complete": len(complete),
            "open": len(alive),
            "again_ns": connections.begun_after(end),
            "by_server": int(facts.by_server[rows].sum()),
        },
        clients=context.clients_of(rows),
        requests=cut,
        evidence=_connections(context, name, rows, "ended together"),
    )


def _refusals(context: SignalContext) -> Iterator[Signal]:
    facts = context.connections
    columns = context.facts.columns
    refused = ~facts.talks & columns.equals("closed", "rst")
    refused &= (columns.ints("bytes_to_server") == 0) & (columns.ints("bytes_to_client") == 0)
    for number, name in enumerate(context.server_names):
        rows = np.flatnonzero(refused & (facts.server == number))
        rows = rows[np.argsort(facts.first_ns[rows], kind="stable")]
        opened = np.sort(facts.first_ns[facts.talks & (facts.server == number)])
        breaks = np.flatnonzero(np.diff(facts.first_ns[rows]) > APART_NS) + 1
        for spell in np.split(rows, breaks):
            if len(spell):
                yield _refusal(context, name, spell, opened)


def _refusal(context: SignalContext, name: str, rows: Int64s, opened: Int64s) -> Signal:
    facts = context.connections
    begin, last = int(facts.first_ns[rows].min()), int(facts.last_ns[rows].max())
    again = opened[opened > last]
    end = int(again[0]) if len(again) else None
    until = f"until {format_clock(end)}" if end is not None else UNTIL_THE_END
    talked = facts.talks & (facts.server == facts.server[rows[0]]) & (facts.first_ns < begin)
    closed = talked & facts.ends & facts.by_server & (facts.closed_ns <= begin)
    return make_signal(
        "attempts_refused",
        (SubjectKind.SERVER, name),
        (begin, end),
        f"{counted(len(rows), 'attempt')} to connect to {name} {'was' if len(rows) == 1 else 'were'} refused "
        f"from {format_clock(begin)} {until}",
        measures={
            "attempts": len(rows),
            "last_ns": last,
            "talked_ns": int(facts.last_ns[talked].max(initial=0)),
            "closed_ns": int(facts.closed_ns[closed].max(initial=0)),
            "elsewhere": int(_other_address(context, rows)),
            "beside": int((facts.talks & (facts.first_ns <= begin + SECOND)).sum()),
        },
        clients=context.clients_of(np.flatnonzero(talked))
        or context.clients_at(rows)
        or context.clients_of(rows),
        requests=len(rows),
        evidence=_connections(context, name, rows, "refused"),
    )


def _other_address(context: SignalContext, rows: Int64s) -> bool:
    """Return whether these are attempts at one address of localhost, and its other one serves the port."""
    columns = context.facts.columns
    ports, hosts = columns.ints("server_port"), columns.values("server_host")
    tried = {hosts[row] for row in rows.tolist()}
    others = {hosts[row] for row in np.flatnonzero(context.connections.talks & np.isin(ports, ports[rows]))}
    return tried <= LOOPBACK_HOSTS and bool((others - tried) & LOOPBACK_HOSTS)
