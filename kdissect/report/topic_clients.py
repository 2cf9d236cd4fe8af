"""Who writes a topic and who reads it: the answer of `kdissect who`, from the topics of a `Summary`.

A rate is over the time in which the capture has exchanges at all. A group is known from commits and questions for offsets of the
topic by the same client id, software and host, since a Fetch does not name its group: two processes that share all three
look like one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from kdissect.report.model import (
    Summary,
    Topic,
    TopicClient,
)
from kdissect.report.render.ranking_table import client_label, software_label
from kdissect.report.render.table import (
    CYAN,
    DIM,
    RED,
    Cell,
    Column,
    Terminal,
    fitted,
    heading,
)
from kdissect.report.render.table_cells import count_cell, size_cell
from kdissect.tables.filters import matches
from kdissect.text import format_count, format_size

WRITES, READS = frozenset((0,)), frozenset((1, 78))
"""Produce; Fetch and ShareFetch."""

NS = 10**9


@dataclass(frozen=True, slots=True)
class End:
    """One client at one end of a topic."""

    client: TopicClient
    records_per_s: float | None
    bytes_per_s: float | None


@dataclass(frozen=True, slots=True)
class Ends:
    """A topic with its writers and readers, those with the most bytes first."""

    topic: str
    writers: tuple[End, ...]
    readers: tuple[End, ...]


def ends_of(summary: Summary, pattern: str) -> tuple[Ends, ...]:
    """Give the topics whose name, or id where the capture has no name, fits the pattern."""
    totals = summary.totals
    seconds = ((totals.last_time_ns or 0) - (totals.first_time_ns or 0)) / NS

    def ends(topic: Topic, keys: frozenset[int]) -> tuple[End, ...]:
        clients = [client for use in topic.uses if use.api_key in keys for client in use.clients]
        return tuple(
            End(
                client,
                client.records / seconds if seconds > 0 else None,
                client.record_bytes / seconds if seconds > 0 else None,
            )
            for client in clients
        )

    return tuple(
        Ends(topic.topic, ends(topic, WRITES), ends(topic, READS))
        for topic in summary.topics
        if matches(topic.topic, (pattern,)) or any(matches(one, (pattern,)) for one in topic.topic_ids)
    )


COLUMNS = (
    Column("", right=False), Column("client", right=False, shortest=12), Column("host", right=False, shortest=9),
    Column("software", right=False, drop=2, shortest=10), Column("groups", right=False, shortest=8), Column("calls", drop=5),
    Column("records"), Column("/s", drop=3), Column("bytes", drop=4), Column("bytes/s", drop=3), Column("errors"), Column("first", drop=1),
    Column("last", drop=1),
)  # fmt: skip


def render(found: Sequence[Ends], terminal: Terminal) -> str:
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
        blocks.append([title, *(fitted(COLUMNS, rows, terminal) if rows else nobody)])
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def _note(ends: Ends) -> str:
    return f"{format_count(len(ends.writers))} writing, {format_count(len(ends.readers))} reading"


def _row(role: str, end: End, terminal: Terminal) -> list[Cell]:
    client = end.client
    return [
        Cell(role, DIM), Cell(client_label(client.name, terminal), CYAN), Cell(terminal.captured(client.name.client_host)),
        Cell(software_label(client.name, terminal)), Cell(terminal.captured(", ".join(client.groups)) if client.groups else "-"),
        Cell(format_count(client.exchanges)), Cell(format_count(client.records)), _rate(end.records_per_s), size_cell(client.record_bytes),
        Cell("-" if end.bytes_per_s is None else format_size(round(end.bytes_per_s))), count_cell(client.errors, RED),
        Cell(terminal.clock(client.first_time_ns)), Cell(terminal.clock(client.last_time_ns)),
    ]  # fmt: skip


def _rate(per_s: float | None) -> Cell:
    return Cell("-") if per_s is None else Cell(f"{per_s:.1f}" if per_s < 10 else format_count(round(per_s)))
