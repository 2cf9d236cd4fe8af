"""Who writes and who reads topics, as text: a table for each topic."""

from collections.abc import Sequence

from kdissect.report.model.topic_clients import TopicClientRate, TopicClients
from kdissect.report.render.cells import client_text, count_cell, size_cell, software_cell
from kdissect.report.render.table import (
    TableCell,
    TableColumn,
    heading,
    table_lines,
)
from kdissect.report.render.terminal import CYAN, DIM, RED, Terminal
from kdissect.report.wording import counted
from kdissect.text import format_count, format_size

COLUMNS = (
    TableColumn("", right=False),
    TableColumn("client", right=False, shortest=12),
    TableColumn("host", right=False, shortest=9),
    TableColumn("software", right=False, drop=2, shortest=10),
    TableColumn("groups", right=False, shortest=8),
    TableColumn("calls", drop=5),
    TableColumn("records"),
    TableColumn("/s", drop=3),
    TableColumn("bytes", drop=4),
    TableColumn("bytes/s", drop=3),
    TableColumn("errors"),
    TableColumn("first", drop=1),
    TableColumn("last", drop=1),
)


def render(topics: Sequence[TopicClients], terminal: Terminal) -> str:
    """Return the tables as text that ends with a newline."""
    return "\n\n".join("\n".join(_table(topic, terminal)) for topic in topics) + "\n"


def _table(topic: TopicClients, terminal: Terminal) -> list[str]:
    note = f"{counted(len(topic.writers), 'writer')}, {counted(len(topic.readers), 'reader')}"
    title = heading(terminal.escape(topic.topic), note, terminal)
    rows = [_row("writes", row, terminal) for row in topic.writers]
    rows += [_row("reads", row, terminal) for row in topic.readers]
    if not rows:
        return [title, " " + terminal.paint("no client writes or reads it in this capture", DIM)]
    return [title, *table_lines(COLUMNS, rows, terminal)]


def _row(action: str, row: TopicClientRate, terminal: Terminal) -> list[TableCell]:
    client = row.client
    return [
        TableCell(action, DIM),
        TableCell(client_text(client.name, terminal), CYAN),
        TableCell(terminal.escape(client.name.client_host)),
        software_cell(client.name, terminal),
        TableCell(terminal.escape(", ".join(client.groups)) if client.groups else "-"),
        TableCell(format_count(client.exchanges)),
        TableCell(format_count(client.records)),
        _rate_cell(row.records_per_s),
        size_cell(client.record_bytes),
        TableCell("-" if row.bytes_per_s is None else format_size(round(row.bytes_per_s))),
        count_cell(client.errors, RED),
        TableCell(terminal.clock(client.first_time_ns)),
        TableCell(terminal.clock(client.last_time_ns)),
    ]


def _rate_cell(per_s: float | None) -> TableCell:
    if per_s is None:
        return TableCell("-")
    return TableCell(f"{per_s:.1f}" if per_s < 10 else format_count(round(per_s)))
