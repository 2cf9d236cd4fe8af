"""Signals about clients whose messages the capture cut: what they repeat tells that something is wrong.

    joins_unread     clients join their groups again and again, for a reason that is behind the cut
    answers_unread   a client asks for the same topics again and again, and never begins to work

A packet that was cut after 96 or 128 bytes has the header of its message: who asks for what, and when. The
error of the answer, and the names of groups and topics, are behind the cut. A member joins once or twice for
each rebalance, and a client that got an answer to its Metadata request writes or reads.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

from kdissect.protocol.api_keys import ApiKey
from kdissect.report.aggregate.partial_tables import CALLS
from kdissect.report.model.incidents import Signal, SubjectKind
from kdissect.report.signals.kinds import SignalCounts, SignalKind
from kdissect.report.signals.make_signal import make_signal
from kdissect.report.signals.signal_context import SignalContext
from kdissect.report.timeline.signal_tables import PACE
from kdissect.report.wording import client_text, counted, listed
from kdissect.text import format_clock, format_duration

SECOND = 10**9
CUT_KINDS = (
    SignalKind("joins_unread", "clients join their groups again and again", SignalCounts.NOTHING),
    SignalKind("answers_unread", "a client asks again and again, and begins no work", SignalCounts.NOTHING),
)
BEFORE_WORK = frozenset(
    {
        ApiKey.API_VERSIONS,
        ApiKey.METADATA,
        ApiKey.FIND_COORDINATOR,
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.SASL_HANDSHAKE,
        ApiKey.SASL_AUTHENTICATE,
        ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
    }
)
"""Requests of a client that has not begun to write or to read."""

JOINS, ROUND_NS = 6, 3 * SECOND // 2
"""So many rounds of joins, with so much time between them, are more than a group needs to come together."""

ASKED, ASKED_NS, NAMES_BYTES = 4, 5 * SECOND, 10
"""So many requests over such a time, with so many bytes behind their header: they name a topic."""

HEADER_BYTES = 10
"""The API, version, correlation id and length of the client id of a request."""

ENDED_NS = 10 * SECOND
NAMED = 3


class Calls(NamedTuple):
    """All APIs of a client, and its requests for metadata of topics: how many, if none was read, and when."""

    apis: set[int]
    asked: int = 0
    unread: bool = True
    begin_ns: int = 1 << 62
    last_ns: int = 0


def cut_signals(context: SignalContext) -> Iterator[Signal]:
    """Yield the signals about clients whose messages were cut.

    Messages that cannot be read for other reasons, such as damage, are no such messages.
    """
    if not context.rules.connections.cut_bytes:
        return
    yield from _joins(context)
    for client, calls in sorted(_metadata_calls(context).items()):
        idle = calls.apis <= BEFORE_WORK and calls.unread
        if idle and calls.asked >= ASKED and calls.last_ns - calls.begin_ns >= ASKED_NS:
            yield _unanswered(context, client, calls)


def _metadata_calls(context: SignalContext) -> dict[str, Calls]:
    """Return the Metadata requests of each client, and all APIs that it uses, if some were not read."""
    calls = context.table(CALLS)
    unread = (calls.ints("api_key") == ApiKey.METADATA) & (calls.ints("faults") >= calls.ints("exchanges"))
    if not unread.any():
        return {}
    hosts = context.facts.column_at("client_host", context.facts.rows(calls)).to_pylist()
    found: dict[str, Calls] = {}
    for row, host in zip(calls.dicts(), hosts, strict=True):
        client = client_text(row["client_id"], host)
        known = found.setdefault(client, Calls(set()))
        known.apis.add(row["api_key"])
        if row["api_key"] == ApiKey.METADATA and _names_topics(row):
            found[client] = known._replace(
                asked=known.asked + row["exchanges"],
                unread=known.unread and row["faults"] >= row["exchanges"],
                begin_ns=min(known.begin_ns, row["first_ns"]),
                last_ns=max(known.last_ns, row["last_ns"]),
            )
    return found


def _names_topics(row: dict[str, Any]) -> bool:
    """Return whether requests are as long as those that name topics: one for all topics has an empty list."""
    body = row["request_bytes"] // row["exchanges"] - HEADER_BYTES - len(row["client_id"] or "")
    return bool(body >= NAMES_BYTES)


def _unanswered(context: SignalContext, client: str, calls: Calls) -> Signal:
    return make_signal(
        "answers_unread",
        (SubjectKind.CLIENT, client),
        (calls.begin_ns, None if context.end_ns - calls.last_ns < ENDED_NS else calls.last_ns),
        f"{client} asked for metadata of its topics {counted(calls.asked, 'time')} from "
        f"{format_clock(calls.begin_ns)} for {format_duration(calls.last_ns - calls.begin_ns)}, and began no "
        "work: the answers were cut, and with them the error",
        measures={"count": calls.asked, "lasted_ns": calls.last_ns - calls.begin_ns},
        requests=calls.asked,
    )


def _joins(context: SignalContext) -> Iterator[Signal]:
    """Yield one signal for each coordinator at which clients join again and again, unread."""
    calls = context.table(CALLS)
    joins = calls.ints("api_key") == ApiKey.JOIN_GROUP
    if not joins.any() or calls.present("group_id")[joins].any():
        return
    by_server: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    pace = context.table(PACE)
    for row in pace.filter(pace.ints("api_key") == ApiKey.JOIN_GROUP).dicts():
        server = context.servers.name(row["server_host"], row["server_port"])
        client = client_text(row["client_id"], row["client_host"])
        by_server[server][client] += [row["first_ns"]] * row["exchanges"]
    for server, clients in sorted(by_server.items()):
        often = {name: times for name, times in clients.items() if _rounds(times) >= JOINS}
        if often:
            yield _repeated(context, server, often)


def _rounds(times: list[int]) -> int:
    """Return how many times a client joins, those of one moment together."""
    rounds, last = 0, -ROUND_NS
    for time_ns in sorted(times):
        rounds, last = (rounds + 1, time_ns) if time_ns - last >= ROUND_NS else (rounds, last)
    return rounds


def _repeated(context: SignalContext, server: str, clients: dict[str, list[int]]) -> Signal:
    """Return the signal; the client that joins most often is named first: others join since it does."""
    names = sorted(clients, key=lambda name: (-len(clients[name]), name))
    times = sorted(time for own in clients.values() for time in own)
    return make_signal(
        "joins_unread",
        (SubjectKind.CLIENT, names[0]),
        (times[0], None if context.end_ns - times[-1] < ENDED_NS else times[-1]),
        f"{listed(names, NAMED)} joined a group at {server} again and again from {format_clock(times[0])} "
        f"for {format_duration(times[-1] - times[0])}, {names[0]} {counted(len(clients[names[0]]), 'time')}: "
        "the messages were cut, and with them the group and the reason",
        measures={"rounds": max(map(_rounds, clients.values())), "lasted_ns": times[-1] - times[0]},
        servers=[server],
        clients=names,
        requests=len(times),
    )
