"""Clients that a newer Kafka would break: by the API versions and message formats that it no longer serves.

A client that asked a broker which versions it serves (ApiVersions, KIP-35) may choose newer ones after the
upgrade: it `may adapt`, if it knows any. One that used a removed version and never asked `breaks`. Clients
under TLS, or not in the capture, are not judged.

Produce up to version 2 and Fetch up to version 3 carry message formats 0 and 1 (before KIP-98, Kafka 0.11),
which Kafka 4.0 and later refuse to write (KIP-724). Topics that hold such records stay readable, and no
capture shows what disks hold.
"""

from collections.abc import Mapping
from typing import NamedTuple

from kdissect.protocol.api_keys import ZOOKEEPER_CONTROL, ApiKey
from kdissect.protocol.kafka07.message_codec import REQUEST_NAMES
from kdissect.protocol.releases import serves
from kdissect.protocol.schema.registry import APIS
from kdissect.report.model.summary import ClientName
from kdissect.report.model.upgrade_check import (
    AffectedClient,
    RemovedVersionUse,
    UpgradeCheck,
    UpgradeVerdict,
)
from kdissect.report.partials import Partial
from kdissect.report.query.call_table import CallTable
from kdissect.report.query.connection_facts import (
    CLIENT_COLUMNS,
    ConnectionFacts,
    client_name,
    read_connection_facts,
)


class OldFormat(NamedTuple):
    """Up to which version an API carries message formats 0 and 1, and what its clients do with records."""

    until: int
    action: str


OLD_FORMATS: Mapping[int, OldFormat] = {
    ApiKey.PRODUCE: OldFormat(2, "writes"),
    ApiKey.FETCH: OldFormat(3, "reads"),
}


def check_upgrade(partial: Partial, release: str) -> UpgradeCheck:
    """Return what becomes of the clients of a capture under a Kafka release, such as 4.0."""
    facts = read_connection_facts(partial)
    columns = ("client_id", "api_key", "api_name", "api_version")
    ranked = CallTable(partial, facts).group_by(columns, CLIENT_COLUMNS)
    used: dict[ClientName, list[RemovedVersionUse]] = {}
    asking: set[ClientName] = set()
    for group, (client_id, key, name, version, *of_client) in enumerate(zip(*ranked.keys, strict=True)):
        if key is None:
            continue
        client = client_name(client_id, of_client)
        calls = used.setdefault(client, [])
        if key == ApiKey.API_VERSIONS:
            asking.add(client)
        if version is None or not serves(release, APIS.get(key), version):
            exchanges = int(ranked.figures.sums["exchanges"][group])
            calls.append(RemovedVersionUse(key, name or REQUEST_NAMES.get(key, str(key)), version, exchanges))
    affected = [_affected(client, calls, asked=client in asking) for client, calls in used.items() if calls]
    affected.sort(key=lambda row: (list(UpgradeVerdict).index(row.verdict), repr(row.name)))
    return UpgradeCheck(release, len(used), tuple(affected), _not_judged(facts))


def _affected(name: ClientName, calls: list[RemovedVersionUse], *, asked: bool) -> AffectedClient:
    formats = {
        old.action
        for call in calls
        if (old := OLD_FORMATS.get(call.api_key)) and (call.api_version or 0) <= old.until
    }
    speaks_kafka_07 = any(call.api_version is None for call in calls)
    return AffectedClient(
        name=name,
        verdict=UpgradeVerdict.MAY_ADAPT if asked and not speaks_kafka_07 else UpgradeVerdict.BREAKS,
        used=tuple(sorted(calls, key=lambda call: (call.api_key, call.api_version or 0))),
        formats=tuple(sorted(formats, reverse=True)),
        controller=any(call.api_version is not None and call.api_key in ZOOKEEPER_CONTROL for call in calls),
    )


def _not_judged(facts: ConnectionFacts) -> int:
    """Return the number of connections with data whose protocol is TLS or not recognised."""
    columns = facts.columns
    hidden = columns.equals("protocol", "tls") | columns.equals("protocol", "unknown")
    traffic = columns.ints("bytes_to_server") + columns.ints("bytes_to_client")
    return int((hidden & (traffic > 0)).sum())
