"""Which connections an incident is about: those in its evidence, and those of its servers and clients.

In come a report, the merged figures that it was built from, and an incident of it. Out go numbers of
connections with the span of time of the incident. A connection belongs to the incident if it was open in
that span, if its server is one that the signals of the incident touch, and if its client is one of those. A
connection without a client id, such as a refused one, goes by the host of its client. An incident without
servers, or without clients, is about all of them.
"""

from typing import NamedTuple

from kdissect.report.model.incidents import Incident, SubjectKind
from kdissect.report.model.summary import Summary
from kdissect.report.partials import Partial
from kdissect.report.query.connection_facts import ConnectionFacts, read_connection_facts
from kdissect.report.signals.signal_context import named_servers
from kdissect.report.wording import client_text


class IncidentConnections(NamedTuple):
    """Connections by number, and the span of an incident in ns; `end_ns` is None for the capture's end."""

    connections: frozenset[int]
    begin_ns: int
    end_ns: int | None


def incident_connections(incident: Incident, summary: Summary, partial: Partial) -> IncidentConnections:
    """Return the connections of an incident of a report and its span."""
    facts = read_connection_facts(partial)
    signals = [summary.signals[number] for number in incident.signals]
    servers = {name for signal in signals for name in signal.servers}
    clients = {name for signal in signals for name in signal.clients} | set(incident.impact.clients)
    if incident.subject.kind is SubjectKind.SERVER:
        servers.add(incident.subject.name)
    if incident.subject.kind is SubjectKind.CLIENT:
        clients.add(incident.subject.name)
    evidence = [*incident.evidence, *(row for signal in signals for row in signal.evidence)]
    named = {row.place.connection for row in evidence if row.place and row.place.connection is not None}
    own = _connections_between(facts, partial, servers, clients, incident)
    return IncidentConnections(frozenset(own | named), incident.begin_ns, incident.end_ns)


def _connections_between(
    facts: ConnectionFacts, partial: Partial, servers: set[str], clients: set[str], incident: Incident
) -> set[int]:
    columns = facts.columns
    hosts, ports, client_hosts, client_ids = (
        columns.values(name) for name in ("server_host", "server_port", "client_host", "client_id")
    )
    names = named_servers(partial, facts).names(hosts, ports)
    named = list(map(client_text, client_ids, client_hosts))
    affected = {host for name, host in zip(named, client_hosts, strict=True) if name in clients}
    rows = zip(
        facts.numbers.tolist(), names, named, client_ids, client_hosts,
        columns.ints("first_time_ns").tolist(), columns.ints("last_time_ns").tolist(), strict=True,
    )  # fmt: skip
    return {
        number
        for number, server, client, client_id, host, first_ns, last_ns in rows
        if (not servers or server in servers)
        and (not clients or client in clients or (not client_id and host in affected))
        and last_ns >= incident.begin_ns
        and (incident.end_ns is None or first_ns <= incident.end_ns)
    }
