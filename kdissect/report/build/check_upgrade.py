"""What a newer Kafka would break: clients by the API versions and message formats that it no longer serves.

A client that asked the broker which versions it serves (ApiVersions, KIP-35) may choose newer ones there: it `may adapt`, if it
knows any. One that used a removed version and never asked `breaks`. Whoever was seen on TLS or not at all is not judged.

Message formats: Produce up to version 2 and Fetch up to version 3 carry formats 0 and 1 (before KIP-98, Kafka 0.11), which
from 4.0 on nobody may write (KIP-724). Topics that still hold such records stay readable; what lies on disks no capture tells.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from kdissect.protocol.api_keys import ZOOKEEPER_CONTROL, ApiKey
from kdissect.protocol.kafka07.message_codec import OLD_NAMES
from kdissect.protocol.releases import serves
from kdissect.protocol.schema.registry import APIS
from kdissect.report.aggregate.partial_tables import CONNECTION_FACTS
from kdissect.report.build.profile import number_ranges
from kdissect.report.model.summary import ClientName
from kdissect.report.partials import Partial
from kdissect.report.query.call_table import CallTable
from kdissect.report.query.connection_facts import (
    CLIENT_COLUMNS,
    ConnectionFacts,
    client_name,
    read_connection_facts,
)
from kdissect.report.render.ranking_table import client_label, software_label
from kdissect.report.render.table import (
    CYAN,
    DIM,
    GREEN,
    RED,
    YELLOW,
    TableCell,
    TableColumn,
    Terminal,
    heading,
    table_lines,
)
from kdissect.text import format_count

FORMATS_UNTIL: Mapping[int, tuple[int, str]] = {ApiKey.PRODUCE: (2, "writes"), ApiKey.FETCH: (3, "reads")}


class UpgradeVerdict(StrEnum):
    """What becomes of a client."""

    BREAKS = "breaks"
    MAY_ADAPT = "may adapt"


@dataclass(frozen=True, slots=True)
class RemovedVersionUse:
    """A version that the release does not serve, and how often it was used; None is Kafka 0.7, which has no versions."""

    api_key: int
    api_name: str
    api_version: int | None
    exchanges: int


@dataclass(frozen=True, slots=True)
class AffectedClient:
    """One client that uses what will be gone."""

    name: ClientName
    verdict: UpgradeVerdict
    used: tuple[RemovedVersionUse, ...]
    formats: tuple[str, ...]
    """`writes` and `reads`: what it does with message formats 0 and 1."""
    controller: bool
    """It leads brokers in the way of ZooKeeper's times: a broker, whose cluster must leave ZooKeeper first."""


@dataclass(frozen=True, slots=True)
class UpgradeCheck:
    """The answer for one release."""

    release: str
    clients: int
    obstacles: tuple[AffectedClient, ...]
    connections_not_judged: int
    """Under TLS, or not recognised."""


def check_upgrade(partial: Partial, release: str) -> UpgradeCheck:
    """Judge all clients of a capture."""
    facts = read_connection_facts(partial.part(CONNECTION_FACTS))
    ranked = CallTable(partial, facts).by(("client_id", "api_key", "api_name", "api_version"), CLIENT_COLUMNS)
    used: dict[tuple[Any, ...], list[RemovedVersionUse]] = {}
    asking: set[tuple[Any, ...]] = set()
    for group, (client_id, key, name, version, *software) in enumerate(zip(*ranked.keys, strict=True)):
        if key is None:
            continue
        client = (client_id, *software)
        calls = used.setdefault(client, [])
        if key == ApiKey.API_VERSIONS:
            asking.add(client)
        if version is None or not serves(release, APIS.get(key), version):
            exchanges = int(ranked.profile.sums["exchanges"][group])
            calls.append(RemovedVersionUse(key, name or OLD_NAMES.get(key, str(key)), version, exchanges))
    obstacles = [
        _obstacle(client_name(client[0], list(client[1:])), calls, asked=client in asking)
        for client, calls in used.items()
        if calls
    ]
    obstacles.sort(key=lambda row: (list(UpgradeVerdict).index(row.verdict), repr(row.name)))
    return UpgradeCheck(release, len(used), tuple(obstacles), _not_judged(facts))


def _obstacle(name: ClientName, calls: list[RemovedVersionUse], *, asked: bool) -> AffectedClient:
    formats = {
        FORMATS_UNTIL[call.api_key][1]
        for call in calls
        if call.api_key in FORMATS_UNTIL and (call.api_version or 0) <= FORMATS_UNTIL[call.api_key][0]
    }
    old = any(call.api_version is None for call in calls)
    return AffectedClient(
        name=name,
        verdict=UpgradeVerdict.MAY_ADAPT if asked and not old else UpgradeVerdict.BREAKS,
        used=tuple(sorted(calls, key=lambda call: (call.api_key, call.api_version or 0))),
        formats=tuple(sorted(formats, reverse=True)),
        controller=any(call.api_version is not None and call.api_key in ZOOKEEPER_CONTROL for call in calls),
    )


def _not_judged(facts: ConnectionFacts) -> int:
    names = facts.columns.plain("protocol").to_pylist()
    traffic = facts.columns.ints("bytes_to_server") + facts.columns.ints("bytes_to_client")
    return sum(
        name in ("tls", "unknown") and size > 0 for name, size in zip(names, traffic.tolist(), strict=True)
    )


COLUMNS = (
    TableColumn("", right=False), TableColumn("client", right=False, shortest=12), TableColumn("host", right=False, shortest=9),
    TableColumn("software", right=False, shortest=10), TableColumn("what will be gone", right=False, shortest=24), TableColumn("calls"),
    TableColumn("formats 0, 1", right=False, drop=1),
)  # fmt: skip
STYLES = {UpgradeVerdict.BREAKS: RED, UpgradeVerdict.MAY_ADAPT: YELLOW}


def render(found: UpgradeCheck, terminal: Terminal) -> str:
    """Give the answer as text that ends with a newline."""
    lines = [
        heading(
            f"Kafka {found.release}",
            "clients by the API versions that it no longer serves (KIP-896, KIP-724)",
            terminal,
        )
    ]
    if found.obstacles:
        lines += table_lines(COLUMNS, [_row(row, terminal) for row in found.obstacles], terminal)
    else:
        lines.append(
            " "
            + terminal.paint(
                f"nothing: all {format_count(found.clients)} clients use versions that it serves", GREEN
            )
        )
    notes = []
    if any(row.verdict is UpgradeVerdict.MAY_ADAPT for row in found.obstacles):
        notes.append("may adapt: it asks brokers for their versions, and does well if it knows newer ones")
    if any(row.controller for row in found.obstacles):
        notes.append("LeaderAndIsr and the like: brokers led by ZooKeeper, which must move to KRaft first")
    if found.connections_not_judged:
        notes.append(
            f"{format_count(found.connections_not_judged)} connections cannot be judged: TLS, or not recognised"
        )
    notes.append(
        "who did not call while the capture was made is not in it; nor are formats of records on disks"
    )
    return "\n".join([*lines, *(" " + terminal.paint(terminal.own(note), DIM) for note in notes)]) + "\n"


def _row(row: AffectedClient, terminal: Terminal) -> list[TableCell]:
    return [
        TableCell(row.verdict, STYLES[row.verdict]), TableCell(client_label(row.name, terminal), CYAN),
        TableCell(terminal.captured(row.name.client_host)), TableCell(software_label(row.name, terminal)),
        TableCell(terminal.captured(_versions(row.used))), TableCell(format_count(sum(call.exchanges for call in row.used))),
        TableCell(", ".join(row.formats), RED),
    ]  # fmt: skip


def _versions(used: tuple[RemovedVersionUse, ...]) -> str:
    """Give Produce v0-2, Fetch v2; Kafka 0.7 after the names that have no version."""
    by_api: dict[str, set[int]] = {}
    for call in used:
        by_api.setdefault(call.api_name, set()).update([] if call.api_version is None else [call.api_version])
    return ", ".join(
        f"{name} v{number_ranges(found)}" if found else f"{name} of Kafka 0.7"
        for name, found in by_api.items()
    )
