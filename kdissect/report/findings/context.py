"""What rules look at: notes of the capture with names and addresses filled in, and rows of the summary that is in the making."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from kdissect.protocol.error_codes import error_name
from kdissect.protocol.schema.registry import api_name
from kdissect.report.aggregate.grouping import Mask, TableColumns
from kdissect.report.aggregate.histogram import Ints
from kdissect.report.aggregate.partial_tables import FINDING_INPUTS, LAGS
from kdissect.report.model.summary import (
    BrokerRow,
    CaptureFacts,
    ConnectionTotals,
    Evidence,
    Figures,
    Location,
    Severity,
    TopicRow,
)
from kdissect.report.partials import Partial
from kdissect.report.query.call_table import CallTable
from kdissect.report.query.connection_facts import ConnectionFacts

MAX_OBSERVATIONS = 100_000
"""Groups of exchanges that findings look at, those with the most exchanges; the rest is counted as omitted."""

ADDRESS = ("client_host", "client_port", "server_host", "server_port")


class Observation(NamedTuple):
    """Exchanges of one kind, client, API, error, group and partition; `closed_ns` is the end of a connection seen in full."""

    kind: str
    api_key: int | None
    api_version: int | None
    code: int | None
    group_id: str | None
    transactional_id: str | None
    second: int | None
    exchanges: int
    amount: int
    most: int
    first_ns: int
    last_ns: int
    closed_ns: int | None
    software: str | None
    place: Location

    @property
    def client(self) -> str:
        """The client id and the host, as people tell clients apart."""
        return f"{self.place.client_id or '(no client id)'} at {self.place.client_host or '?'}"

    @property
    def partition(self) -> str | None:
        """Topic and partition as topic-7."""
        place = self.place
        return place.topic if place.partition is None else f"{place.topic}-{place.partition}"

    @property
    def api(self) -> str:
        """The name of the API."""
        return "?" if self.api_key is None else api_name(self.api_key)

    @property
    def error(self) -> str:
        """The name of the error."""
        return error_name(self.code or 0)


class ConsumerLag(NamedTuple):
    """How far one client was behind the end of one partition: at its first fetch, at its last, and at most."""

    client: str
    topic: str
    before: int
    after: int
    most: int
    first_ns: int
    last_ns: int
    place: Location


class FindingContext(NamedTuple):
    """Everything that rules look at."""

    capture: CaptureFacts
    facts: ConnectionFacts
    connections: ConnectionTotals
    totals: Figures
    brokers: tuple[BrokerRow, ...]
    topics: tuple[TopicRow, ...]
    ranking: CallTable
    notes: tuple[Observation, ...]
    lags: tuple[ConsumerLag, ...] = ()

    def of(self, *kinds: str) -> list[Observation]:
        """Give the notes of these kinds."""
        return [note for note in self.notes if note.kind in kinds]

    def errors(self, codes: Iterable[int]) -> list[Observation]:
        """Give the notes of these error codes."""
        wanted = frozenset(codes)
        return [note for note in self.notes if note.kind == "error" and note.code in wanted]


class Judgement(NamedTuple):
    """What a rule found; a severity here stands in for the rule's own."""

    title: str
    evidence: Sequence[Evidence]
    severity: Severity | None = None


class FindingRule(NamedTuple):
    """A name that stays, how bad it is, how to find it, what it means and what to look at next."""

    name: str
    severity: Severity
    judge: Callable[[FindingContext], Judgement | None]
    means: str
    next: str


def find_observations(
    partial: Partial, facts: ConnectionFacts, names: dict[str, str]
) -> tuple[tuple[Observation, ...], int]:
    """Give the notes in the order of time, and how many were left out."""
    columns = TableColumns(partial.part(FINDING_INPUTS))
    order = np.lexsort((columns.ints("first_ns"), -columns.ints("exchanges")))
    table = columns.table.take(order[:MAX_OBSERVATIONS])
    columns = TableColumns(table)
    rows = facts.rows(columns)
    client_ids = facts.client_ids(columns.plain("client_id"), rows).to_pylist()
    ends, software, *addresses = (
        facts.taken(name, rows).to_pylist() for name in ("last_time_ns", "client_software_name", *ADDRESS)
    )
    complete = _seen_to_the_end(facts, rows).tolist()
    found = [
        _note(
            row, names, client_id, dict(zip(ADDRESS, address, strict=True)), made_by, end if whole else None
        )
        for row, client_id, end, whole, made_by, address in zip(
            table.to_pylist(), client_ids, ends, complete, software, zip(*addresses, strict=True), strict=True
        )
    ]
    found.sort(key=lambda note: (note.first_ns, repr(note)))
    return tuple(found), max(len(order) - MAX_OBSERVATIONS, 0)


def find_consumer_lags(
    partial: Partial, facts: ConnectionFacts, names: dict[str, str]
) -> tuple[ConsumerLag, ...]:
    """Give the lags, those of one client on several connections put together."""
    columns = TableColumns(partial.part(LAGS))
    rows = facts.rows(columns)
    client_ids = facts.client_ids(columns.plain("client_id"), rows).to_pylist()
    addresses = zip(*(facts.taken(name, rows).to_pylist() for name in ADDRESS), strict=True)
    found: dict[tuple[str, str, int], dict[str, list[tuple[int, int, int, Location]]]] = {}
    for row, client_id, ends in zip(columns.table.to_pylist(), client_ids, addresses, strict=True):
        topic = row["topic"] if row["topic"] is not None else names.get(row["topic_id"], row["topic_id"])
        place = Location(
            time_ns=abs(row["order_ns"]), topic=topic, client_id=client_id, detail=None,
            **{name: row[name] for name in ("capture_file", "request_packet", "response_packet", "connection", "partition")},
            **dict(zip(ADDRESS, ends, strict=True)),
        )  # fmt: skip
        who = f"{client_id or '(no client id)'} at {ends[0] or '?'}", topic or "?", row["partition"]
        edges = found.setdefault(who, {"first": [], "last": []})
        edges[row["edge"]].append((row["order_ns"], row["lag"], row["most"], place))
    lags = []
    for (client, topic, _), edges in sorted(found.items()):
        first, last = (min(edges[edge], key=lambda seen: seen[:2]) for edge in ("first", "last"))
        most = max(seen[2] for seen in edges["first"])
        lags.append(ConsumerLag(client, topic, first[1], last[1], most, first[0], -last[0], first[3]))
    return tuple(lags)


def _seen_to_the_end(facts: ConnectionFacts, rows: Ints) -> Mask:
    """Tell which connections were closed and lack nothing."""
    if not len(facts.numbers):
        return rows >= 0
    whole: Mask = facts.closed & ~facts.lossy
    return (rows >= 0) & whole[rows]


def _note(
    row: dict[str, Any],
    names: dict[str, str],
    client_id: str | None,
    address: dict[str, Any],
    software: str | None,
    closed_ns: int | None,
) -> Observation:
    place = Location(
        time_ns=row["first_ns"],
        topic=row["topic"] if row["topic"] is not None else names.get(row["topic_id"], row["topic_id"]),
        client_id=client_id,
        detail=None,
        **{
            name: row[name]
            for name in ("capture_file", "request_packet", "response_packet", "connection", "partition")
        },
        **address,
    )
    own = {name: row[name] for name in Observation._fields if name in row}
    return Observation(**own, closed_ns=closed_ns, software=software, place=place)


def group_by(
    notes: Iterable[Observation], key: Callable[[Observation], tuple[str, ...]]
) -> Iterator[tuple[tuple[str, ...], list[Observation]]]:
    """Give notes by key, most exchanges first."""
    found: dict[tuple[str, ...], list[Observation]] = {}
    for note in notes:
        found.setdefault(key(note), []).append(note)
    yield from sorted(found.items(), key=lambda item: (-count_exchanges(item[1]), item[0]))


def spells(notes: Iterable[Observation], pause_ns: int) -> Iterator[list[Observation]]:
    """Part notes where nothing happened for longer than a pause."""
    spell: list[Observation] = []
    latest = 0
    for note in sorted(notes, key=lambda note: note.first_ns):
        if spell and note.first_ns - latest > pause_ns:
            yield spell
            spell = []
        latest = max(latest, note.last_ns) if spell else note.last_ns
        spell.append(note)
    if spell:
        yield spell


def server_names(notes: Iterable[Observation]) -> str:
    """Name the brokers that notes are about, as many as fit a line."""
    names = sorted({f"{note.place.server_host or '?'}:{note.place.server_port}" for note in notes})
    return ", ".join(names[:2]) + (f" and {len(names) - 2} more" if len(names) > 2 else "")


def count_exchanges(notes: Iterable[Observation]) -> int:
    """Count exchanges."""
    return sum(note.exchanges for note in notes)


def span_ns(notes: Sequence[Observation]) -> int:
    """Give the time from the first to the last."""
    return max(note.last_ns for note in notes) - min(note.first_ns for note in notes)


def evidence(subject: str, detail: str, notes: Sequence[Observation]) -> Evidence:
    """Give evidence from notes, its place that of the earliest."""
    first = min(notes, key=lambda note: note.first_ns)
    return Evidence(
        subject=subject,
        detail=detail,
        count=count_exchanges(notes),
        first_time_ns=first.first_ns,
        last_time_ns=max(note.last_ns for note in notes),
        place=first.place,
    )


def plural(count: int, noun: str) -> str:
    """Give 1 client, 2 clients."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
