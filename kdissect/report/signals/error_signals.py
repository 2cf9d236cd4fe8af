"""Signals about error responses: the same error again and again, leadership that left a server, coordinators.

    errors_repeated     an error code of an API, for one topic, group or transactional id, several times
    replicas_missing    the same, where the error is that too few replicas are in sync
    leader_missing      the same, where a topic has no leader for so long that nobody may be elected
    coordinator_missing the same, where a group or a transactional id has no coordinator for so long
    leadership_left     a server refuses requests for partitions that it led
    coordinator_left    a server refuses requests of groups or transactions that it coordinated
    storage_failed      a server cannot read or write the log of partitions

Clients back off between attempts, so attempts with up to `APART_NS` between them are one spell. Errors that
belong to ordinary life (a join without a member id, the first look-up of a coordinator, a rebalance) count
only if they last.
"""

from collections.abc import Iterator, Mapping, Sequence

from kdissect.protocol.api_keys import EPOCH_HEARTBEATS, ApiKey
from kdissect.protocol.error_codes import (
    COORDINATOR_ERRORS,
    FETCH_SESSION_ERRORS,
    LEADER_LEFT,
    LEADER_MOVED,
    MEMBER_EXPIRED,
    ErrorCode,
    error_name,
    is_retriable,
)
from kdissect.protocol.usual_errors import is_usual
from kdissect.report.findings.evidence import count_requests, observed, spells
from kdissect.report.findings.observations import Observation
from kdissect.report.model.incidents import Signal, SubjectKind
from kdissect.report.signals.kinds import SignalCounts, SignalKind
from kdissect.report.signals.make_signal import make_signal
from kdissect.report.signals.signal_context import SignalContext
from kdissect.report.wording import counted, listed
from kdissect.text import format_clock, format_duration

SECOND = 10**9
APART_NS = 15 * SECOND
SPELL_NS = 3 * SECOND
"""Errors that tell of a moved leader or coordinator with less than this between them are one move."""

REPEATED, SCATTERED = 3, 6
"""So many errors for one topic, group or id repeat, and so many of one client, each for another one."""

REPEATED_OVER_NS = SECOND
"""Errors that come at once and are over are of one moment: clients refresh their metadata and go on."""

LEADERLESS_NS = 6 * SECOND
"""An election takes less, also one that follows a session of a broker that died."""

NEVER = 1 << 62
LASTED_NS: Mapping[int, int] = {
    ErrorCode.REBALANCE_IN_PROGRESS: NEVER,
    ErrorCode.CONCURRENT_TRANSACTIONS: NEVER,
    ErrorCode.SASL_AUTHENTICATION_FAILED: 0,
    **dict.fromkeys((ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), 3 * SECOND),
    **dict.fromkeys(FETCH_SESSION_ERRORS, 10 * SECOND),
    **dict.fromkeys((ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.ILLEGAL_GENERATION), 5 * SECOND),
    **dict.fromkeys(COORDINATOR_ERRORS, 8 * SECOND),
    **dict.fromkeys(LEADER_MOVED, 5 * SECOND),
}
"""How long errors must last to be a signal, where it is not enough that they come three times."""

MOVES = LEADER_MOVED - {ErrorCode.LEADER_NOT_AVAILABLE}
"""Errors of a partition that moved: two moves some seconds apart are no trouble that lasts."""

OF_MEMBERS = MEMBER_EXPIRED
"""Errors that many members get once when their group goes on without them."""

ERROR_KINDS = (
    SignalKind("errors_repeated", "the same error again and again", SignalCounts.ERRORS),
    SignalKind("replicas_missing", "writes refused for want of in-sync replicas", SignalCounts.ERRORS),
    SignalKind("leader_missing", "a topic has no leader", SignalCounts.ERRORS),
    SignalKind("coordinator_missing", "a group or transaction has no coordinator", SignalCounts.ERRORS),
    SignalKind("leadership_left", "a server refuses partitions that it led", SignalCounts.ERRORS),
    SignalKind("coordinator_left", "a server refuses groups that it coordinated", SignalCounts.ERRORS),
    SignalKind("storage_failed", "a server cannot reach the log of partitions", SignalCounts.ERRORS),
)
NO_COORDINATOR = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
LOST_REPLICAS = (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
NAMED = 3
REPLICA = "broker-"
FIRST_REQUESTS = frozenset({ApiKey.JOIN_GROUP, ApiKey.INIT_PRODUCER_ID})
"""Requests that a client sends to a coordinator first. A coordinator that is loading refuses it, too."""

FRESH_NS = 2 * SECOND
"""The first heartbeat of a member of KIP-848, which joins by it, comes so soon after its connection."""


def error_signals(context: SignalContext) -> Iterator[Signal]:
    """Yield the signals about error responses."""
    errors = context.rules.of_kind("error")
    unusual = [error for error in errors if not is_usual(error.api_key, error.code)]
    yield from _of_objects(context, unusual)
    yield from _left(context, "leadership_left", [row for row in errors if row.code in LEADER_LEFT])
    moved = [row for row in errors if row.code == ErrorCode.NOT_COORDINATOR]
    yield from _left(context, "coordinator_left", moved)
    yield from _storage(context, [row for row in errors if row.code == ErrorCode.KAFKA_STORAGE_ERROR])


def _of_objects(context: SignalContext, errors: Sequence[Observation]) -> Iterator[Signal]:
    """Yield errors that repeat for one topic, group or id, for many of one client, or for many of several."""
    objects: dict[tuple[int, int, str, str], list[Observation]] = {}
    single: dict[tuple[int, int, str], list[Observation]] = {}
    for error in errors:
        key = error.api_key or 0, error.code or 0
        objects.setdefault((*key, *_object(error)), []).append(error)
    for (api_key, code, kind, name), group in sorted(objects.items()):
        for spell in spells(group, SPELL_NS if code in MOVES else APART_NS):
            if _lasts(spell, REPEATED):
                yield _repeated(context, spell, kind, name)
            elif kind:
                for error in spell:
                    single.setdefault((api_key, code, error.client), []).append(error)
    left: dict[tuple[int, int], list[Observation]] = {}
    for (api_key, code, _), group in sorted(single.items()):
        for spell in spells(group, APART_NS):
            if _lasts(spell, SCATTERED) and len({_object(error) for error in spell}) >= SCATTERED:
                yield _repeated(context, spell, "", "")
            elif not is_retriable(code) and code not in OF_MEMBERS:
                left.setdefault((api_key, code), []).extend(spell)
    for _, group in sorted(left.items()):
        for spell in spells(group, APART_NS):
            if _lasts(spell, SCATTERED) and len(_clients(spell)) >= REPEATED:
                yield _repeated(context, spell, "", "")


def _lasts(spell: Sequence[Observation], least: int) -> bool:
    lasted = spell[-1].last_ns - spell[0].first_ns
    return count_requests(spell) >= least and lasted >= LASTED_NS.get(spell[0].code or 0, REPEATED_OVER_NS)


def _object(error: Observation) -> tuple[str, str]:
    """Return what the request was about: a topic, a group, a transactional id or nothing."""
    if error.location.topic is not None:
        return "topic", error.location.topic
    if error.transactional_id is not None:
        return "producer", error.transactional_id
    return ("group", error.group_id) if error.group_id is not None else ("", "")


def _repeated(context: SignalContext, spell: Sequence[Observation], kind: str, name: str) -> Signal:
    clients, servers = _clients(spell), _servers(context, spell)
    subject = _subject(kind, name, clients, servers)
    first, last = spell[0], max(row.last_ns for row in spell)
    count = count_requests(spell)
    about = f" for {kind} {name}" if kind else ""
    who = f"from {clients[0]}" if len(clients) == 1 else f"from {_askers(clients)}"
    to_the_end = context.end_ns - last < APART_NS // 3
    return make_signal(
        _kind(first, last - first.first_ns),
        subject,
        (first.first_ns, None if to_the_end else last),
        f"{first.api}{about} was refused with {error_name(first.code or 0)} {counted(count, 'time')}, "
        f"{who}, from {format_clock(first.first_ns)} for {format_duration(last - first.first_ns)}",
        measures={
            "api_key": first.api_key or 0,
            "code": first.code or 0,
            "count": count,
            "lasted_ns": last - first.first_ns,
        },
        servers=servers,
        clients=clients,
        groups=sorted({row.group_id for row in spell if row.group_id is not None}),
        topics=sorted({row.location.topic for row in spell if row.location.topic is not None}),
        requests=count,
        evidence=[observed(clients[0], f"{first.api} {first.error}", spell)],
    )


def _kind(error: Observation, lasted_ns: int) -> str:
    if error.code in LOST_REPLICAS:
        return "replicas_missing"
    if error.code in NO_COORDINATOR:
        return "coordinator_missing"
    leaderless = error.code == ErrorCode.LEADER_NOT_AVAILABLE and lasted_ns >= LEADERLESS_NS
    return "leader_missing" if leaderless else "errors_repeated"


def _subject(kind: str, name: str, clients: Sequence[str], servers: Sequence[str]) -> tuple[SubjectKind, str]:
    if len(clients) == 1:
        return SubjectKind.CLIENT, clients[0]
    if kind:
        return SubjectKind(kind), name
    return (SubjectKind.SERVER, servers[0]) if len(servers) == 1 else (SubjectKind.CLUSTER, "the cluster")


def _left(context: SignalContext, kind: str, errors: Sequence[Observation]) -> Iterator[Signal]:
    by_server: dict[str, list[Observation]] = {}
    for error in errors:
        place = error.location
        by_server.setdefault(context.servers.name(place.server_host, place.server_port), []).append(error)
    for server, rows in sorted(by_server.items()):
        for spell in spells(rows, SPELL_NS):
            if not _is_first_contact(context, spell):
                yield _move(kind, server, spell)


def _is_first_contact(context: SignalContext, spell: Sequence[Observation]) -> bool:
    """Return whether few requests were refused, and all of them before the server served the group at all."""
    return count_requests(spell) < REPEATED and all(_is_first_request(context, row) for row in spell)


def _is_first_request(context: SignalContext, row: Observation) -> bool:
    if row.api_key not in EPOCH_HEARTBEATS:
        return row.api_key in FIRST_REQUESTS
    return row.last_ns - context.first_seen(row.location.connection or 0) < FRESH_NS


def _move(kind: str, server: str, spell: Sequence[Observation]) -> Signal:
    leadership = kind == "leadership_left"
    things = sorted(
        {row.partition or "?" for row in spell}
        if leadership
        else {row.group_id or row.transactional_id or "?" for row in spell}
    )
    clients = [name for name in _clients(spell) if not name.startswith(REPLICA)]
    begin = spell[0].first_ns
    noun = "partition" if leadership else "group"
    verb = "leads" if leadership else "coordinates"
    return make_signal(
        kind,
        (SubjectKind.SERVER, server),
        (begin, max(row.last_ns for row in spell)),
        f"{server} no longer {verb} {counted(len(things), noun)} ({listed(things, NAMED)}) from "
        f"{format_clock(begin)}, as {_learnt(clients, _clients(spell))} learnt",
        measures={
            "things": len(things),
            "clients": len(clients),
            "replicas": len(_clients(spell)) - len(clients),
        },
        clients=clients,
        groups=() if leadership else things,
        topics=sorted({row.location.topic for row in spell if row.location.topic is not None}),
        requests=count_requests(spell),
        evidence=[observed(server, ", ".join(sorted({row.error for row in spell})), spell)],
    )


def _storage(context: SignalContext, errors: Sequence[Observation]) -> Iterator[Signal]:
    """Yield servers that answer with KAFKA_STORAGE_ERROR; a single one tells that a log directory is gone."""
    by_server: dict[str, list[Observation]] = {}
    for error in errors:
        place = error.location
        by_server.setdefault(context.servers.name(place.server_host, place.server_port), []).append(error)
    for server, rows in sorted(by_server.items()):
        topics = sorted({row.location.topic for row in rows if row.location.topic is not None})
        begin, count = min(row.first_ns for row in rows), count_requests(rows)
        yield make_signal(
            "storage_failed",
            (SubjectKind.SERVER, server),
            (begin, None),
            f"{server} cannot reach the log of partitions of {listed(topics, NAMED)} since "
            f"{format_clock(begin)}: {counted(count, 'request')} of {_askers(_clients(rows))} refused with "
            "KAFKA_STORAGE_ERROR",
            measures={"count": count, "code": ErrorCode.KAFKA_STORAGE_ERROR},
            clients=_clients(rows),
            topics=topics,
            requests=count,
            evidence=[observed(server, "KAFKA_STORAGE_ERROR", rows)],
        )


def _learnt(clients: Sequence[str], all_clients: Sequence[str]) -> str:
    """Return who learnt that leadership moved: clients, or else replica fetchers of other brokers."""
    fetchers = len(all_clients) - len(clients)
    return counted(len(clients), "client") if clients else counted(fetchers, "replica fetcher")


def _askers(clients: Sequence[str]) -> str:
    """Return how many clients and how many replica fetchers of brokers were refused."""
    fetchers = sum(name.startswith(REPLICA) for name in clients)
    kinds = ((len(clients) - fetchers, "client"), (fetchers, "replica fetcher"))
    return " and ".join(counted(count, noun) for count, noun in kinds if count)


def _clients(spell: Sequence[Observation]) -> list[str]:
    return sorted({row.client for row in spell})


def _servers(context: SignalContext, spell: Sequence[Observation]) -> list[str]:
    places = {(row.location.server_host, row.location.server_port) for row in spell}
    return sorted({context.servers.name(*place) for place in places})
