"""Numbers for what the page names: clients, brokers, connections, APIs and files, the heaviest first.

A client here is a client id at a host; its software may differ between connections. Number -1 stands for all
that are not singled out.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from kdissect.array_types import Int64s
from kdissect.report.aggregate.grouping import TableColumns
from kdissect.report.aggregate.partial_rows import sort_rows
from kdissect.report.model.call_figures import Figures, Latency
from kdissect.report.model.findings import Location
from kdissect.report.model.summary import Summary
from kdissect.report.partials import Partial
from kdissect.report.query.call_table import CallTable
from kdissect.report.query.connection_facts import ConnectionFacts
from kdissect.report.query.topic_names import TopicNames

MOST_CLIENTS, MOST_BROKERS, MOST_APIS = 300, 200, 256
NOT_SINGLED_OUT = -1
NO_REF = -1

Key = tuple[Any, ...]
Number = TypeVar("Number", int, Int64s)
Plain = dict[str, Any]


class PageNames:
    """Numbers for everything that the page names, and times counted from the first step."""

    def __init__(self, summary: Summary, partial: Partial, facts: ConnectionFacts, start_ns: int) -> None:
        self.summary, self.partial, self.facts, self.start_ns = summary, partial, facts, start_ns
        self.calls = CallTable(partial, facts)
        self.clients = NumberedGroups(self.calls, ("client_id",), ("client_host",), MOST_CLIENTS)
        self.brokers = NumberedGroups(self.calls, (), ("server_host", "server_port"), MOST_BROKERS)
        self.apis = NumberedGroups(self.calls, ("api_key",), (), MOST_APIS)
        self.topic = TopicNames(partial).name
        self.files = {name: number for number, name in enumerate(summary.capture.files)}
        self.connections = dict(zip(facts.numbers.tolist(), range(len(facts.numbers)), strict=True))

    def api(self, key: int | None) -> int:
        """Return the number of an API key."""
        return self.apis.numbers.get((key,), NOT_SINGLED_OUT)

    def client(self, client_id: str | None, host: str | None) -> int:
        """Return the number of a client."""
        return self.clients.numbers.get((client_id, host), NOT_SINGLED_OUT)

    def broker(self, host: str | None, port: int | None) -> int:
        """Return the number of a broker."""
        return self.brokers.numbers.get((host, port), NOT_SINGLED_OUT)

    def connection(self, number: int | None) -> int:
        """Return the place of a connection in the list of connections."""
        return NOT_SINGLED_OUT if number is None else self.connections.get(number, NOT_SINGLED_OUT)

    def since(self, time_ns: int | None) -> int | None:
        """Return a time as nanoseconds from the first step, which JavaScript represents exactly."""
        return None if time_ns is None else time_ns - self.start_ns

    def packet_ref(self, file: str | None, *packets: int | None) -> int | None:
        """Return a packet as one number: its own times the number of files, plus the number of its file."""
        packet = next((packet for packet in packets if packet is not None), None)
        if packet is None or file is None or file not in self.files:
            return None
        return self._packed(packet, self.files[file])

    def packet_refs(self, columns: TableColumns) -> Int64s:
        """Return `row_ref` of each row, NO_REF for none."""
        text = columns.text("capture_file")
        numbers = [self.files.get(name, NO_REF) for name in text.texts.to_pylist()]
        file = np.array([*numbers, NO_REF], np.int64)[text.numbers]
        packet = columns.coalesce("request_packet", "response_packet")
        known = columns.present("request_packet") | columns.present("response_packet")
        return np.where(known & (file != NO_REF), self._packed(packet, file), NO_REF)

    def _packed(self, packet: Number, file: Number) -> Number:
        """Return one number for packets and the numbers of their files."""
        return packet * max(len(self.files), 1) + file

    def row_ref(self, row: Mapping[str, Any]) -> int | None:
        """Return the packet of a row that has the columns of a location."""
        return self.packet_ref(row["capture_file"], row["request_packet"], row["response_packet"])

    def location(self, location: Location | None) -> Plain | None:
        """Return a location for the page."""
        if location is None:
            return None
        return {
            "at": self.since(location.time_ns),
            "request": self.packet_ref(location.capture_file, location.request_packet),
            "response": self.packet_ref(location.capture_file, location.response_packet),
            "client": self.client(location.client_id, location.client_host),
            "connection": self.connection(location.connection),
            "broker": self.broker(location.server_host, location.server_port),
            "topic": location.topic,
            "partition": location.partition,
            "detail": location.detail,
        }


class NumberedGroups:
    """The first groups of a ranking: their numbers by key, and their figures over the whole capture."""

    def __init__(
        self, ranking: CallTable, own: Sequence[str], of_connection: Sequence[str], most: int
    ) -> None:
        ranked = ranking.group_by(own, of_connection)
        order = ranked.order[:most]
        self.keys: list[Key] = [tuple(column[group] for column in ranked.keys) for group in order]
        self.numbers: dict[Key, int] = {key: number for number, key in enumerate(self.keys)}
        self.figures: list[Figures] = [ranked.figures.of(group) for group in order]
        self.connections = [int(ranked.connections[group]) for group in order]
        self.omitted = len(ranked.order) - len(order)

    def rows(self, names: Sequence[str]) -> Iterable[Plain]:
        """Yield each group with its key and figures."""
        for key, figures, count in zip(self.keys, self.figures, self.connections, strict=True):
            yield dict(zip(names, key, strict=True)) | {"connections": count, "all": plain_figures(figures)}


def plain_figures(figures: Figures) -> Plain:
    """Return the figures that the page shows for the whole capture."""
    return {
        "n": figures.exchanges,
        "timed": figures.service.count if figures.service else 0,
        "lossy": figures.doubtful,
        "service": plain_latency(figures.service),
        "idle": plain_latency(figures.idle),
    }


def plain_latency(latency: Latency | None) -> Plain | None:
    """Return the percentiles that are within 0.4 %."""
    if latency is None:
        return None
    return {
        "n": latency.count,
        "sum": latency.sum_ns,
        "p50": latency.p50_ns,
        "p99": latency.p99_ns,
        "max": latency.max_ns,
        "v2m": latency.variance_to_mean_ns,
    }


def sorted_columns(partial: Partial, part: Any) -> TableColumns:
    """Return a table of a partial as columns, rows in a fixed order."""
    return sort_rows(part, partial.columns(part))
