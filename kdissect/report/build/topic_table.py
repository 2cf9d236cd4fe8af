"""Topics of a whole capture: volumes, latencies, and the clients that write and read.

Rows of a topic may have its name, its id or both. They come together under one name (see
`query.topic_names`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kdissect.array_types import Bools, Int64s
from kdissect.report.aggregate.group_sums import highest_by_group, lowest_by_group, sum_by_group
from kdissect.report.aggregate.grouping import RowGroups, TableColumns, encode, group_rows
from kdissect.report.aggregate.partial_tables import (
    TOPIC_CALLS,
    TOPIC_FLOWS,
    TOPIC_LATENCIES,
    TOPIC_PARTITIONS,
    PartialTable,
)
from kdissect.report.aggregate.topics import AMOUNTS
from kdissect.report.model.limited import Limited, limited
from kdissect.report.model.summary import TopicClient, TopicRow, TopicUse
from kdissect.report.partials import Partial
from kdissect.report.query.alike_connections import add_up_alike
from kdissect.report.query.connection_facts import (
    CLIENT_COLUMNS,
    ConnectionFacts,
    client_name,
)
from kdissect.report.query.figures import LatencyGroups, latencies_of_calls
from kdissect.report.query.topic_names import TopicNames
from kdissect.tables.array_batch import join_columns

VOLUMES = ("mentions", "errors", *AMOUNTS)
COUNTS = ("exchanges", "unanswered", "throttled")
CLIENT_VOLUMES = ("records", "record_bytes", "errors")
Name = tuple[str | None, ...]
"""Client id and `CLIENT_COLUMNS` of a client."""


class NamedTable(NamedTuple):
    """A table of a partial with the name of each row's topic."""

    columns: TableColumns
    topic: pa.Array


class RankedTopics(NamedTuple):
    """Topics, and how many of their clients were left out."""

    topics: Limited[TopicRow]
    clients_omitted: int


class UseGroups(NamedTuple):
    """Rows of flows, calls and latencies grouped by topic and API."""

    flows: Int64s
    calls: Int64s
    latencies: Int64s
    topics: list[str]
    api_keys: list[int]


class TopicTables:
    """The tables of a partial that have topics."""

    def __init__(
        self,
        partial: Partial,
        facts: ConnectionFacts,
        names: TopicNames,
        api_names: Mapping[int, str],
    ) -> None:
        self.facts, self.api_names = facts, api_names
        self.flows, self.calls = (
            _named(_added(partial, table, facts), names) for table in (TOPIC_FLOWS, TOPIC_CALLS)
        )
        self.latencies, self.partitions = (
            _named(partial.columns(table), names) for table in (TOPIC_LATENCIES, TOPIC_PARTITIONS)
        )

    def rank(self, most: int, most_clients: int) -> RankedTopics:
        """Return topics by bytes, mentions and name; `most_clients` is the limit for each topic and API."""
        topics = group_rows(encode(self.flows.topic))
        labels = self.flows.topic.take(pa.array(topics.first)).to_pylist()
        size, mentions = (
            sum_by_group(topics, self.flows.columns.ints(name)) for name in ("record_bytes", "mentions")
        )
        order = sorted(range(topics.count), key=lambda at: (-size[at], -mentions[at], labels[at]))
        kept = limited([labels[at] for at in order], most)
        uses, clients_omitted = self._uses(kept.rows, most_clients)
        ids, partitions = self._values(kept.rows, "topic_id"), self._values(kept.rows, "partition")
        rows = tuple(
            TopicRow(
                topic=label,
                topic_ids=tuple(sorted(ids[label])),
                resolved=label not in ids[label],
                partitions=len(partitions[label]),
                uses=tuple(uses[label]),
            )
            for label in kept.rows
        )
        return RankedTopics(Limited(rows, kept.omitted), clients_omitted)

    def _uses(self, kept: Sequence[str], most_clients: int) -> tuple[dict[str, list[TopicUse]], int]:
        """Return the uses of each topic by API key, and how many clients were left out."""
        flows, calls, latencies = (_within(table, kept) for table in (self.flows, self.calls, self.latencies))
        groups = _use_groups(flows, calls, latencies)
        by_flow = RowGroups(groups.flows, len(groups.topics), np.zeros(0, np.int64))
        volumes = {name: sum_by_group(by_flow, flows.columns.ints(name)) for name in VOLUMES}
        by_call = replace(by_flow, of=groups.calls)
        counts = {name: sum_by_group(by_call, calls.columns.ints(name)) for name in COUNTS}
        lossy = self.facts.flags(self.facts.rows(calls.columns)).lossy
        counts["doubtful"] = sum_by_group(by_call, np.where(lossy, calls.columns.ints("exchanges"), 0))
        by_group = LatencyGroups(groups.calls, groups.latencies, len(groups.topics))
        service, idle = (
            latencies_of_calls(calls.columns, latencies.columns, by_group, idle=idle)
            for idle in (False, True)
        )
        codecs = _codecs(flows.columns, groups.flows)
        clients = self._clients(flows.columns, calls.columns, groups)
        uses: dict[str, list[TopicUse]] = {label: [] for label in kept}
        omitted = 0
        for group in sorted(range(len(groups.topics)), key=lambda at: groups.api_keys[at]):
            ranked = limited(clients.get(group, []), most_clients)
            omitted += ranked.omitted
            uses[groups.topics[group]].append(
                TopicUse(
                    api_key=groups.api_keys[group],
                    api_name=self.api_names.get(groups.api_keys[group]),
                    codecs=codecs.get(group, {}),
                    service=service.of(group),
                    idle=idle.of(group),
                    clients=ranked.rows,
                    **{name: int(column[group]) for name, column in (volumes | counts).items()},
                )
            )
        return uses, omitted

    def _clients(
        self, flows: TableColumns, calls: TableColumns, uses: UseGroups
    ) -> dict[int, list[TopicClient]]:
        """Return the clients of each use, most bytes first."""
        rows = np.concatenate([self.facts.rows(flows), self.facts.rows(calls)])
        columns = [
            self.facts.clients(join_columns([table.text("client_id") for table in (flows, calls)]), rows)
        ]
        columns += [self.facts.columns.text(name).take(rows) for name in CLIENT_COLUMNS]
        use_of_row = np.concatenate([uses.flows, uses.calls])
        groups = group_rows(encode(pa.array(use_of_row)), *(encode(column) for column in columns))
        by_flow = replace(groups, of=groups.of[: flows.rows])
        by_call = replace(groups, of=groups.of[flows.rows :])
        volumes = [
            sum_by_group(by_call, calls.ints("exchanges")),
            *(sum_by_group(by_flow, flows.ints(name)) for name in CLIENT_VOLUMES),
        ]
        present = flows.present("first_ns")
        times = (
            lowest_by_group(by_flow, flows.ints("first_ns"), present).tolist(),
            highest_by_group(by_flow, flows.ints("last_ns"), present).tolist(),
        )
        names: list[Name] = list(
            zip(*(column.take(groups.first).tolist() for column in columns), strict=True)
        )
        use_of_group = use_of_row[groups.first].tolist()
        topics = [uses.topics[use] for use in use_of_group]
        group_ids = _group_ids(by_flow, flows, topics, names)
        clients: dict[int, list[TopicClient]] = {}
        for use, topic, name, amounts, first_ns, last_ns in zip(
            use_of_group,
            topics,
            names,
            zip(*(volume.tolist() for volume in volumes), strict=True),
            *times,
            strict=True,
        ):
            client = TopicClient(
                name=client_name(name[0], name[1:]),
                **dict(zip(("exchanges", *CLIENT_VOLUMES), amounts, strict=True)),
                groups=tuple(sorted(group_ids.get((topic, name), ()))),
                first_time_ns=first_ns,
                last_time_ns=last_ns,
            )
            clients.setdefault(use, []).append(client)
        for rows_of_use in clients.values():
            rows_of_use.sort(key=lambda row: (-row.record_bytes, -row.exchanges, repr(row.name)))
        return clients

    def _values(self, kept: Sequence[str], name: str) -> dict[str, set[Any]]:
        """Return the distinct values of a column of the partitions by topic."""
        rows = _within(self.partitions, kept)
        values: dict[str, set[Any]] = {label: set() for label in kept}
        for label, value in zip(rows.topic.to_pylist(), rows.columns.values(name), strict=True):
            if value is not None:
                values[label].add(value)
        return values


def _added(partial: Partial, table: PartialTable, facts: ConnectionFacts) -> TableColumns:
    """Return the rows of a table, of connections that are alike added up if they are many."""
    added = add_up_alike(table, partial, facts)
    return partial.columns(table) if added is None else added.columns


def _named(columns: TableColumns, names: TopicNames) -> NamedTable:
    ids = columns.arrow("topic_id").dictionary_encode()
    resolved = names.names(ids.dictionary.to_pylist()).take(ids.indices)
    return NamedTable(columns, pc.coalesce(columns.arrow("topic"), resolved))


def _within(table: NamedTable, kept: Sequence[str]) -> NamedTable:
    """Return the rows of the topics that are kept."""
    mask: Bools = pc.is_in(table.topic, pa.array(kept, pa.string())).to_numpy(zero_copy_only=False)
    if mask.all():
        return table
    return NamedTable(table.columns.filter(mask), table.topic.filter(pa.array(mask)))


def _use_groups(flows: NamedTable, calls: NamedTable, latencies: NamedTable) -> UseGroups:
    tables = (flows, calls, latencies)
    topics = pa.concat_arrays([table.topic for table in tables])
    api_keys = pa.concat_arrays([table.columns.arrow("api_key") for table in tables])
    groups = group_rows(encode(topics), encode(api_keys))
    ends = np.cumsum([flows.columns.rows, calls.columns.rows])
    first = pa.array(groups.first)
    by_flow, by_call, by_latency = np.split(groups.of, ends)
    return UseGroups(
        by_flow, by_call, by_latency, topics.take(first).to_pylist(), api_keys.take(first).to_pylist()
    )


def _codecs(flows: TableColumns, use: Int64s) -> dict[int, dict[str, int]]:
    """Return the record bytes of each use by codec."""
    groups = group_rows(encode(pa.array(use)), encode(flows.column("codec")))
    size = sum_by_group(groups, flows.ints("record_bytes"))
    rows = zip(
        use[groups.first].tolist(),
        flows.arrow("codec").take(pa.array(groups.first)).to_pylist(),
        size.tolist(),
        strict=True,
    )
    codecs: dict[int, dict[str, int]] = {}
    for group, codec, amount in sorted(row for row in rows if row[1] is not None):
        codecs.setdefault(group, {})[codec] = amount
    return codecs


def _group_ids(
    groups: RowGroups, flows: TableColumns, topics: Sequence[str], names: Sequence[Name]
) -> dict[tuple[str, Name], set[str]]:
    """Return the consumer groups under which each client used a topic, whatever the API."""
    group_ids: dict[tuple[str, Name], set[str]] = {}
    for group, group_id in zip(groups.of.tolist(), flows.values("group_id"), strict=True):
        if group_id is not None:
            group_ids.setdefault((topics[group], names[group]), set()).add(group_id)
    return group_ids
