"""An upgrade check as text: the clients that are affected, and notes on what it cannot tell."""

from kdissect.report.model.upgrade_check import (
    AffectedClient,
    RemovedVersionUse,
    UpgradeCheck,
    UpgradeVerdict,
)
from kdissect.report.render.cells import client_text, software_cell
from kdissect.report.render.table import (
    TableCell,
    TableColumn,
    heading,
    table_lines,
)
from kdissect.report.render.terminal import CYAN, DIM, GREEN, RED, YELLOW, Terminal
from kdissect.report.wording import counted, number_ranges
from kdissect.text import format_count

COLUMNS = (
    TableColumn("", right=False),
    TableColumn("client", right=False, shortest=12),
    TableColumn("host", right=False, shortest=9),
    TableColumn("software", right=False, shortest=10),
    TableColumn("no longer served", right=False, shortest=24),
    TableColumn("calls"),
    TableColumn("formats 0, 1", right=False, drop=1),
)
STYLES = {UpgradeVerdict.BREAKS: RED, UpgradeVerdict.MAY_ADAPT: YELLOW}


def render(check: UpgradeCheck, terminal: Terminal) -> str:
    """Return the check as text that ends with a newline."""
    note = "clients by the API versions that it no longer serves (KIP-896, KIP-724)"
    lines = [heading(f"Kafka {check.release}", note, terminal)]
    if check.obstacles:
        lines += table_lines(COLUMNS, [_row(row, terminal) for row in check.obstacles], terminal)
    else:
        all_use = f"all {format_count(check.clients)} clients use"
        who = "the only client uses" if check.clients == 1 else all_use
        text = f"no problems: {who} versions that it serves"
        lines.append(" " + terminal.paint(text, GREEN))
    lines += [" " + terminal.paint(terminal.show(note), DIM) for note in _notes(check)]
    return "\n".join(lines) + "\n"


def _notes(check: UpgradeCheck) -> list[str]:
    notes = []
    if any(row.verdict is UpgradeVerdict.MAY_ADAPT for row in check.obstacles):
        notes.append("may adapt: it asks brokers for their versions, and works if it knows newer ones")
    if any(row.controller for row in check.obstacles):
        notes.append(
            "LeaderAndIsr and similar APIs: brokers of a ZooKeeper cluster, which must move to KRaft first"
        )
    if check.connections_not_judged:
        connections = counted(check.connections_not_judged, "connection")
        notes.append(f"{connections} cannot be judged: TLS, or not recognised")
    notes.append(
        "clients that did not connect during the capture are not listed, nor are record formats on disks"
    )
    return notes


def _row(row: AffectedClient, terminal: Terminal) -> list[TableCell]:
    return [
        TableCell(row.verdict, STYLES[row.verdict]),
        TableCell(client_text(row.name, terminal), CYAN),
        TableCell(terminal.escape(row.name.client_host)),
        software_cell(row.name, terminal),
        TableCell(terminal.escape(_versions(row.used))),
        TableCell(format_count(sum(use.exchanges for use in row.used))),
        TableCell(", ".join(row.formats), RED),
    ]


def _versions(used: tuple[RemovedVersionUse, ...]) -> str:
    """Return Produce v0-2, Fetch v2; APIs without versions are those of Kafka 0.7."""
    by_api: dict[str, set[int]] = {}
    for use in used:
        versions = by_api.setdefault(use.api_name, set())
        if use.api_version is not None:
            versions.add(use.api_version)
    return ", ".join(
        f"{name} v{number_ranges(versions)}" if versions else f"{name} of Kafka 0.7"
        for name, versions in by_api.items()
    )
