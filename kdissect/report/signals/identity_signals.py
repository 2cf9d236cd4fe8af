"""Signals about one name that stands for two things: a topic with two ids, an address of two brokers.

    topic_recreated     a topic got another id, and clients that had used it were refused meanwhile (KIP-516)
    address_shared      two brokers advertise one address, and clients that look for one reach the other

The name of an id may be learnt from Metadata, or from offsets that only one topic has. Two clusters in one
capture may have topics of one name, and a broker may be replaced by another one at its address. So both
signals need errors that follow from it.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from kdissect.protocol.error_codes import LEADER_MOVED, ErrorCode
from kdissect.report.aggregate.partial_tables import BROKERS
from kdissect.report.findings.evidence import count_requests, observed, spells
from kdissect.report.findings.finding_context import Observation
from kdissect.report.model.incidents import Signal, SubjectKind
from kdissect.report.signals.client_names import BROKERS_OWN, ClientFacts
from kdissect.report.signals.kinds import SignalCounts, SignalKind
from kdissect.report.signals.make_signal import make_signal
from kdissect.report.signals.signal_context import SignalContext
from kdissect.report.wording import counted, listed
from kdissect.text import format_address, format_clock, format_duration

SECOND = 10**9
IDENTITY_KINDS = (
    SignalKind("topic_recreated", "a topic was deleted and created again", SignalCounts.ERRORS),
    SignalKind("address_shared", "two brokers advertise one address", SignalCounts.ERRORS),
)
GONE = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.OFFSET_OUT_OF_RANGE,
    }
)
"""Errors of clients that know the topic by its old id, or by offsets of its old log."""

SPELL_NS = 30 * SECOND
LASTED_NS = 5 * SECOND
"""Refusals by a broker that does not lead end sooner if clients only have to learn who does."""

NAMED = 3


def identity_signals(context: SignalContext) -> Iterator[Signal]:
    """Yield the signals about names that stand for two things."""
    errors = context.rules.of_kind("error")
    yield from _recreated_topics(context, errors)
    yield from _shared_addresses(context, errors)


def _recreated_topics(context: SignalContext, errors: Sequence[Observation]) -> Iterator[Signal]:
    again = context.topics.with_several_ids()
    gone: dict[str, list[Observation]] = defaultdict(list)
    for row in errors:
        if row.location.topic in again and row.code in GONE:
            gone[row.location.topic].append(row)
    facts = context.shared(ClientFacts)
    for topic in sorted(gone):
        for spell in spells(gone[topic], SPELL_NS):
            if facts.had_records([topic], spell[0].first_ns):
                yield _recreated(context, topic, spell)


def _recreated(context: SignalContext, topic: str, spell: Sequence[Observation]) -> Signal:
    clients = sorted({row.client for row in spell})
    begin, last = spell[0].first_ns, max(row.last_ns for row in spell)
    count, errors = count_requests(spell), sorted({row.error for row in spell})
    named = [client for client in clients if not BROKERS_OWN.match(client)] or clients
    return make_signal(
        "topic_recreated",
        (SubjectKind.TOPIC, topic),
        (begin, last),
        f"Topic {topic} was deleted and created again under its name at {format_clock(begin)}: "
        f"{counted(count, 'request')} of {listed(named, NAMED)} refused with {', '.join(errors)} for "
        f"{format_duration(last - begin)}; its records before that are gone",
        measures={"count": count, "clients": len(clients)},
        servers=_servers(context, spell),
        clients=clients,
        groups=sorted({row.group_id for row in spell if row.group_id is not None}),
        topics=[topic],
        requests=count,
        evidence=[observed(topic, ", ".join(errors), spell)],
    )


def _shared_addresses(context: SignalContext, errors: Sequence[Observation]) -> Iterator[Signal]:
    nodes: dict[tuple[str | None, int | None], set[int]] = defaultdict(set)
    for row in context.partial.table(BROKERS).to_pylist():
        nodes[row["host"], row["port"]].add(row["node_id"])
    refused: dict[tuple[str | None, int | None], list[Observation]] = defaultdict(list)
    for row in errors:
        address = row.location.server_host, row.location.server_port
        if row.code in LEADER_MOVED and row.replica_id is None and len(nodes.get(address, ())) > 1:
            refused[address].append(row)
    for address in sorted(refused, key=str):
        host, port = address
        for spell in spells(refused[address], SPELL_NS):
            if max(row.last_ns for row in spell) - spell[0].first_ns >= LASTED_NS:
                yield _shared(context, format_address(host or "?", port), sorted(nodes[address]), spell)


def _shared(context: SignalContext, address: str, nodes: list[int], spell: Sequence[Observation]) -> Signal:
    clients = sorted({row.client for row in spell})
    begin, last = spell[0].first_ns, max(row.last_ns for row in spell)
    errors = ", ".join(sorted({row.error for row in spell}))
    brokers = " and ".join(
        f"broker {node}" if number else f"Broker {node}" for number, node in enumerate(nodes)
    )
    return make_signal(
        "address_shared",
        (
            SubjectKind.SERVER,
            context.servers.name(spell[0].location.server_host, spell[0].location.server_port),
        ),
        (begin, None if context.end_ns - last < LASTED_NS else last),
        f"{brokers} advertise one address, {address}, so clients of one reach the other: "
        f"{counted(count_requests(spell), 'request')} of {listed(clients, NAMED)} refused with {errors} from "
        f"{format_clock(begin)} for {format_duration(last - begin)}",
        measures={"nodes": len(nodes), "clients": len(clients)},
        servers=_servers(context, spell),
        clients=clients,
        topics=sorted({row.location.topic for row in spell if row.location.topic is not None}),
        requests=count_requests(spell),
        evidence=[observed(address, errors, spell)],
    )


def _servers(context: SignalContext, spell: Sequence[Observation]) -> list[str]:
    places = {(row.location.server_host, row.location.server_port) for row in spell}
    return sorted({context.servers.name(*place) for place in places})
