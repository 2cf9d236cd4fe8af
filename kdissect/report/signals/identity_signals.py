"""Signals about one name that stands for two things: a topic with two ids, an address of two brokers.

    topic_recreated     a topic got another id, and clients that had used it were refused meanwhile (KIP-516)
    address_shared      two brokers advertise one address, and clients that look for one reach the other
    topic_elsewhere     a server does not know topics that other servers serve at the same time

The name of an id may be learnt from Metadata, or from offsets that only one topic has. Two clusters in one
capture may have topics of one name, and a broker may be replaced by another one at its address. So both
signals need errors that follow from it.

All brokers of a cluster learn of a topic within a moment. One that does not know it for seconds belongs to
another cluster, or gets no news from its controller.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from kdissect.protocol.api_keys import SUBSCRIPTIONS
from kdissect.protocol.api_mask import in_apis
from kdissect.protocol.error_codes import LEADER_MOVED, ErrorCode
from kdissect.report.aggregate.partial_tables import BROKERS, TOPIC_FLOWS
from kdissect.report.findings.evidence import count_requests, observed, spells
from kdissect.report.findings.observations import Observation
from kdissect.report.model.incidents import Signal, SubjectKind
from kdissect.report.signals.client_names import BROKERS_OWN, ClientFacts
from kdissect.report.signals.kinds import SignalCounts, SignalKind
from kdissect.report.signals.make_signal import make_signal
from kdissect.report.signals.named_rows import topic_rows
from kdissect.report.signals.signal_context import SignalContext
from kdissect.report.wording import counted, listed
from kdissect.text import format_address, format_clock, format_duration

SECOND = 10**9
IDENTITY_KINDS = (
    SignalKind("topic_recreated", "a topic was deleted and created again", SignalCounts.ERRORS),
    SignalKind("address_shared", "two brokers advertise one address", SignalCounts.ERRORS),
    SignalKind("topic_elsewhere", "a server lacks topics that others serve", SignalCounts.ERRORS),
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

UNKNOWN, UNKNOWN_NS = 4, 3 * SECOND
"""So many refusals over such a time: a topic that was just created is known everywhere sooner."""

NAMED = 3


def identity_signals(context: SignalContext) -> Iterator[Signal]:
    """Yield the signals about names that stand for two things."""
    errors = context.rules.of_kind("error")
    yield from _recreated_topics(context, errors)
    yield from _shared_addresses(context, errors)
    yield from _strangers(context, errors)


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
    for broker in context.rows(BROKERS):
        nodes[broker["host"], broker["port"]].add(broker["node_id"])
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


def _strangers(context: SignalContext, errors: Sequence[Observation]) -> Iterator[Signal]:
    """Yield the servers that do not know a topic for seconds, while others serve it.

    They are told apart by address: brokers of two clusters may have one number.
    """
    unknown: dict[str, list[Observation]] = defaultdict(list)
    for row in errors:
        named = row.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and row.location.topic is not None
        if named and row.replica_id is None:
            unknown[format_address(row.location.server_host or "?", row.location.server_port)].append(row)
    served = _served_until(context) if unknown else {}
    for server, rows in sorted(unknown.items()):
        for spell in spells(rows, SPELL_NS):
            last = max(row.last_ns for row in spell)
            topics = {
                topic: others
                for topic in {row.location.topic or "" for row in spell}
                if (others := _serving(served.get(topic, {}), server, spell[0].first_ns + UNKNOWN_NS))
            }
            own = [row for row in spell if row.location.topic in topics]
            if count_requests(own) >= UNKNOWN and last - own[0].first_ns >= UNKNOWN_NS:
                yield _stranger(context, server, own, sorted(set().union(*topics.values())))


def _serving(served: dict[str, int], server: str, time_ns: int) -> set[str]:
    """Return the servers that still serve a topic at a time, none if the given server ever did."""
    return set() if server in served else {name for name, last_ns in served.items() if last_ns >= time_ns}


def _served_until(context: SignalContext) -> dict[str, dict[str, int]]:
    """Return until when each server served each topic, on connections without an error about it."""
    flows = context.table(TOPIC_FLOWS)
    flows = flows.filter(~in_apis(flows.ints("api_key"), SUBSCRIPTIONS))
    rows = context.facts.rows(flows)
    well = (rows >= 0) & (flows.ints("errors") < flows.ints("mentions"))
    names = topic_rows(flows, context.topics)
    columns = context.facts.columns
    ends = zip(columns.values("server_host"), columns.values("server_port"), strict=True)
    addresses = [format_address(host or "?", port) for host, port in ends]
    found: dict[str, dict[str, int]] = defaultdict(dict)
    for at in np.flatnonzero(well).tolist():
        server = addresses[rows[at]]
        own = found[names.names[int(names.of[at])]]
        last_ns = int(flows.ints("last_ns")[at]) if flows.ints("errors")[at] == 0 else 0
        own[server] = max(own.get(server, 0), last_ns)
    return found


def _stranger(
    context: SignalContext, server: str, spell: Sequence[Observation], others: Sequence[str]
) -> Signal:
    begin, last = spell[0].first_ns, max(row.last_ns for row in spell)
    clients = sorted({row.client for row in spell})
    topics = sorted({row.location.topic for row in spell if row.location.topic is not None})
    return make_signal(
        "topic_elsewhere",
        (SubjectKind.SERVER, server),
        (begin, None if context.end_ns - last < LASTED_NS else last),
        f"{server} does not know topic {listed(topics, NAMED)}, which {listed(others, NAMED)} serve: it "
        "belongs to another cluster, or gets no news from its own. "
        f"{counted(count_requests(spell), 'request')} of {listed(clients, NAMED)} refused "
        f"with UNKNOWN_TOPIC_OR_PARTITION from {format_clock(begin)} for {format_duration(last - begin)}",
        measures={"count": count_requests(spell), "lasted_ns": last - begin},
        servers=_servers(context, spell),
        clients=clients,
        topics=topics,
        requests=count_requests(spell),
        evidence=[observed(server, "UNKNOWN_TOPIC_OR_PARTITION", spell)],
    )


def _servers(context: SignalContext, spell: Sequence[Observation]) -> list[str]:
    places = {(row.location.server_host, row.location.server_port) for row in spell}
    return sorted({context.servers.name(*place) for place in places})
