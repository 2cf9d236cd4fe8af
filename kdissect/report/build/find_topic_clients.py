"""Who writes a topic and who reads it: the answer of `kdissect who`, from the topics of a `Summary`.

A rate is over the time in which the capture has exchanges at all. A group is known from commits and questions for offsets of the
topic by the same client id, software and host, since a Fetch does not name its group: two processes that share all three
look like one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from kdissect.protocol.api_keys import FETCHES, ApiKey
from kdissect.report.model.summary import (
    Summary,
    TopicClient,
    TopicRow,
)
from kdissect.report.render.ranking_table import client_label, software_label
from kdissect.report.render.table import (
    CYAN,
    DIM,
    RED,
    TableCell,
    TableColumn,
    Terminal,
    heading,
    table_lines,
)
from kdissect.report.render.table_cells import count_cell, size_cell
from kdissect.tables.filters import matches
from kdissect.text import format_count, format_size

WRITES = frozenset((ApiKey.PRODUCE,))

NS = 10**9


@dataclass(frozen=True, slots=True)
class TopicClientRate:
    """One client at one end of a topic."""

    client: TopicClient
    records_per_s: float | None
    bytes_per_s: float | None


@dataclass(frozen=True, slots=True)
class TopicClients:
    """A topic with its writers and readers, those with the most bytes first."""

    topic: str
    writers: tuple[TopicClientRate, ...]
    readers: tuple[TopicClientRate, ...]


def find_topic_clients(summary: Summary, pattern: str) -> tuple[TopicClients, ...]:
    """Give the topics whose name, or id where the capture has no name, fits the pattern."""
    totals = summary.totals
    seconds = ((totals.last_time_ns or 0) - (totals.first_time_ns or 0)) / NS

    def ends(topic: TopicRow, keys: frozenset[int]) -> tuple[TopicClientRate, ...]:
        clients = [client for use in topic.uses if use.api_key in keys for client in use.clients]
        return tuple(
            TopicClientRate(
                client,
                client.records / seconds if seconds > 0 else None,
                client.record_bytes / seconds if seconds > 0 else None,
            )
            for client in clients
        )

    return tuple(
        TopicClients(topic.topic, ends(topic, WRITES), ends(topic, FETCHES))
        for topic in summary.topics
        if matches(topic.topic, (pattern,)) or any(matches(one, (pattern,)) for one in topic.topic_ids)
    )


COLUMNS = (
    TableColumn("", right=False), TableColumn("client", right=False, shortest=12), TableColumn("host", right=False, shortest=9),
    TableColumn("software", right=False, drop=2, shortest=10), TableColumn("groups", right=False, shortest=8), TableColumn("calls", drop=5),
    TableColumn("records"), TableColumn("/s", drop=3), TableColumn("bytes", drop=4), TableColumn("bytes/s", drop=3), TableColumn("errors"), TableColumn("first", drop=1),
    TableColumn("last", drop=1),
)  # fmt: skip


def render(found: Sequence[TopicClients], terminal: Terminal) -> str:
    """Give the tables as text that ends with a newline."""
    blocks = []
    for ends in found:
        rows = [
            _row(name, end, terminal)
            for name, side in (("writes", ends.writers), ("reads", ends.readers))
            for end in side
        ]
        title = heading(terminal.captured(ends.topic), _note(ends), terminal)
        nobody = [" " + terminal.paint("nobody writes or reads it in this capture", DIM)]
        blocks.append([title, *(table_lines(COLUMNS, rows, terminal) if rows else nobody)])
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def _note(ends: TopicClients) -> str:
    return f"{format_count(len(ends.writers))} writing, {format_count(len(ends.readers))} reading"


def _row(role: str, end: TopicClientRate, terminal: Terminal) -> list[TableCell]:
    client = end.client
    return [
        TableCell(role, DIM), TableCell(client_label(client.name, terminal), CYAN), TableCell(terminal.captured(client.name.client_host)),
        TableCell(software_label(client.name, terminal)), TableCell(terminal.captured(", ".join(client.groups)) if client.groups else "-"),
        TableCell(format_count(client.exchanges)), TableCell(format_count(client.records)), _rate(end.records_per_s), size_cell(client.record_bytes),
        TableCell("-" if end.bytes_per_s is None else format_size(round(end.bytes_per_s))), count_cell(client.errors, RED),
        TableCell(terminal.clock(client.first_time_ns)), TableCell(terminal.clock(client.last_time_ns)),
    ]  # fmt: skip


def _rate(per_s: float | None) -> TableCell:
    return (
        TableCell("-")
        if per_s is None
        else TableCell(f"{per_s:.1f}" if per_s < 10 else format_count(round(per_s)))
    )
