"""Signals about addresses that brokers advertise in Metadata, where their clients cannot reach them.

advertised_refused  an address that a broker advertises never accepts a connection
advertised_untried  clients that need a broker never try its address, and ask for metadata without end

A name that cannot be resolved, or `localhost` on another host, leaves no packet: the clients fail before they
connect. They write or read topics of which that broker leads partitions, so they ask again who leads them.
Each time they ask stands for an attempt that could not be made.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping

import numpy as np

from kdissect.report.aggregate.partial_tables import BROKERS
from kdissect.report.findings.connection_evidence import chosen_evidence
from kdissect.report.findings.evidence import observed_times
from kdissect.report.model.incidents import Signal, SubjectKind
from kdissect.report.query.topic_names import Address
from kdissect.report.signals.kinds import SignalCounts, SignalKind
from kdissect.report.signals.load_signals import Storm, metadata_storms
from kdissect.report.signals.make_signal import make_signal
from kdissect.report.signals.server_names import follower_of
from kdissect.report.signals.signal_context import SignalContext
from kdissect.report.timeline.signal_tables import LOAD, READS, REPLICA_STATES
from kdissect.report.wording import counted, listed
from kdissect.text import LOOPBACK_HOSTS, format_address, format_clock, format_duration

ADDRESS_KINDS = (
    SignalKind("advertised_refused", "an advertised address accepts nobody", SignalCounts.ATTEMPTS),
    SignalKind("advertised_untried", "an advertised address that clients never try", SignalCounts.ATTEMPTS),
)

SECOND = 10**9
UNANSWERED_NS = SECOND
"""An attempt to connect that nobody answered for less may be answered after the end of the capture."""

FENCED_NS = 18 * SECOND
"""A broker that is gone leads nothing after this: a session of KRaft lasts 9 s, one of ZooKeeper 18 s."""

UP_EDGE_NS = 2 * SECOND
"""A broker that is up need not talk in the first and the last seconds of a capture."""

NAMED = 3


def address_signals(context: SignalContext) -> Iterator[Signal]:
    """Yield the signals about advertised addresses."""
    yield from _refused(context)
    yield from _untried(context)


def _refused(context: SignalContext) -> Iterator[Signal]:
    """Yield each address that Metadata names, and that nobody could connect to in the whole capture."""
    columns, facts = context.facts.columns, context.connections
    nodes = {(row["host"], row["port"]): row["node_id"] for row in context.rows(BROKERS)}
    silent = (columns.ints("bytes_to_server") == 0) & (columns.ints("bytes_to_client") == 0)
    for number, address in enumerate(context.addresses):
        if address not in nodes:
            continue
        rows = np.flatnonzero(context.address == number)
        failed = silent[rows] & ~columns.present("server_rtt_ns")[rows]
        refused = int((columns.equals("closed", "rst")[rows] & failed).sum())
        waited = context.end_ns - facts.first_ns[rows] >= UNANSWERED_NS
        if failed.all() and (refused or waited.any()) and _is_up(context, address, nodes[address], rows):
            yield _refused_signal(context, address, nodes[address], rows, refused)


def _refused_signal(
    context: SignalContext, address: Address, node: int, rows: np.ndarray, refused: int
) -> Signal:
    begin = int(context.connections.first_ns[rows].min())
    text = format_address(address[0] or "?", address[1])
    name = context.servers.of_node(node)
    subject = f"broker {node}" if text in name else name
    how = "refused" if 2 * refused >= len(rows) else "not answered"
    attempts = f"{counted(len(rows), 'attempt')} to connect {'was' if len(rows) == 1 else 'were'} {how}"
    return make_signal(
        "advertised_refused",
        (SubjectKind.SERVER, subject),
        (begin, None),
        f"{subject} advertises {text} in Metadata, where nobody can connect: {attempts} from "
        f"{format_clock(begin)} on",
        measures={"attempts": len(rows), "refused": refused, "node_id": node},
        servers=[context.servers.name(*address)],
        clients=context.clients_at(rows),
        requests=len(rows),
        evidence=[chosen_evidence(context.rules, text, how, rows)],
    )


def _leads_on(context: SignalContext, node: int, time_ns: int) -> bool:
    """Return whether messages name a broker as the leader of a partition after a time."""
    states = context.table(REPLICA_STATES)
    return bool(((states.ints("leader_id") == node) & (states.ints("last_ns") >= time_ns)).any())


def _is_up(context: SignalContext, address: Address, node: int, attempts: np.ndarray) -> bool:
    """Return whether the broker talks elsewhere during the `attempts`: it serves, or it is a client itself.

    It is up, too, if messages name it as a leader long after that: a capture may lack what it says itself.
    It serves at another address or port. It is a client as a follower, or from its own host. Attempts may
    begin and end with the capture, so the first and the last seconds do not count.
    """
    columns, facts = context.facts.columns, context.connections
    servers = zip(columns.values("server_host"), columns.values("server_port"), strict=True)
    clients = zip(columns.values("client_host"), columns.values("client_id"), strict=True)
    first_ns, last_ns = int(facts.first_ns[attempts].min()), int(facts.first_ns[attempts].max())
    apart = int(np.diff(np.sort(facts.first_ns[attempts])).max(initial=0))
    at_it = last_ns - first_ns >= FENCED_NS and 2 * apart <= FENCED_NS  # not: starting, and then stopping
    if at_it and _leads_on(context, node, first_ns + FENCED_NS):
        return True
    until_ns = min(last_ns + UNANSWERED_NS // 2, context.end_ns - UP_EDGE_NS)
    throughout = facts.talks & (facts.first_ns <= max(first_ns, context.begin_ns + UP_EDGE_NS))
    throughout &= facts.last_ns >= until_ns
    own_host = address[0] if address[0] not in LOOPBACK_HOSTS else None
    return any(
        server != address
        and (
            context.servers.nodes.get(server) == node
            or (own_host is not None and own_host in (server[0], host))
            or follower_of(client) == node
        )
        for server, (host, client), talks in zip(servers, clients, throughout.tolist(), strict=True)
        if talks
    )


def _untried(context: SignalContext) -> Iterator[Signal]:
    """Yield each broker that clients with a storm of metadata need, and never try to reach."""
    storms = dict(metadata_storms(context))
    addresses = _addresses(context)
    if not storms or len(addresses) < 2:
        return
    visited, topics, leaders = _visited(context), _topics(context), _leaders(context)
    if len(set().union(*(visited[client] for client in storms))) == 1:
        return  # the capture may be of one broker, and lacks what its clients send to others
    reached_by_any = set().union(*visited.values())
    avoid: dict[int, list[str]] = defaultdict(list)
    for client in storms:
        reached = {node for node, own in addresses.items() if own & visited[client]}
        for node in set(addresses) - reached if reached else ():
            if topics[client] & leaders[node]:
                avoid[node].append(client)
    for node, clients in sorted(avoid.items()):
        wrong = addresses[node] - reached_by_any or addresses[node]
        yield _untried_signal(context, node, sorted(wrong, key=str), clients, storms)


def _addresses(context: SignalContext) -> dict[int, set[Address]]:
    """Return the addresses that Metadata names for each broker, by its id."""
    addresses: dict[int, set[Address]] = defaultdict(set)
    for row in context.rows(BROKERS):
        addresses[row["node_id"]].add((row["host"], row["port"]))
    return addresses


def _visited(context: SignalContext) -> Mapping[str, set[Address]]:
    """Return the addresses that each client connected to, and those that its host tried in vain."""
    columns, facts = context.facts.columns, context.connections
    hosts, ports = columns.values("server_host"), columns.values("server_port")
    visited: dict[str, set[Address]] = defaultdict(set)
    for row, address in enumerate(zip(hosts, ports, strict=True)):
        if facts.talks[row]:
            visited[context.client_names[facts.client[row]]].add(address)
        else:
            for client in context.clients_at(np.array([row])):
                visited[client].add(address)
    return visited


def _topics(context: SignalContext) -> Mapping[str, set[str]]:
    """Return the topics that each client wrote or read."""
    topics: dict[str, set[str]] = defaultdict(set)
    for table in (LOAD, READS):
        for client, topic in context.values(table, "client", "name"):
            if topic is not None:
                topics[client].add(topic)
    return topics


def _leaders(context: SignalContext) -> Mapping[int, set[str]]:
    """Return the topics of which each broker leads a partition."""
    leaders: dict[int, set[str]] = defaultdict(set)
    for row in context.rows(REPLICA_STATES):
        if row["name"] is not None and row["leader_id"] is not None:
            leaders[row["leader_id"]].add(row["name"])
    return leaders


def _untried_signal(
    context: SignalContext,
    node: int,
    addresses: list[Address],
    clients: list[str],
    storms: Mapping[str, Storm],
) -> Signal:
    own = [storms[client] for client in clients]
    begin, end = min(storm.begin_ns for storm in own), max(storm.end_ns for storm in own)
    count = sum(storm.requests for storm in own)
    verb = "tries" if len(clients) == 1 else "try"
    texts = listed([format_address(host or "?", port) for host, port in addresses], NAMED)
    subject = context.servers.of_node(node)
    return make_signal(
        "advertised_untried",
        (SubjectKind.SERVER, subject),
        (begin, None if context.end_ns - end < UNANSWERED_NS else end),
        f"{subject} advertises {texts} in Metadata{_own_host(addresses)}: {listed(clients, NAMED)} never "
        f"{verb} to connect there, and asked for metadata {counted(count, 'time')} from "
        f"{format_clock(begin)} for {format_duration(end - begin)} instead",
        measures={"node_id": node, "clients": len(clients), "count": count},
        servers=[subject],
        clients=clients,
        requests=count,
        evidence=[observed_times("Metadata requests", storm.times) for storm in own],
    )


def _own_host(addresses: list[Address]) -> str:
    """Return what is wrong with addresses that name the host of whoever reads them."""
    own = all(host in LOOPBACK_HOSTS for host, _ in addresses)
    return ", which is the own host of each client" if own else ""
