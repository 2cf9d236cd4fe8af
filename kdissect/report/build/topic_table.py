"""Topics of a whole capture: names found for ids, volumes, latencies, who writes and who reads."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kdissect.report.aggregate.grouping import (
    Mask,
    RowGroups,
    TableColumns,
    encode,
    group_rows,
    highest_by_group,
    lowest_by_group,
    sum_by_group,
)
from kdissect.report.aggregate.histogram import Ints
from kdissect.report.aggregate.partial_tables import (
    NAMES,
    TOPIC_CALLS,
    TOPIC_FLOWS,
    TOPIC_LATENCIES,
    TOPIC_PARTITIONS,
    PartialTable,
)
from kdissect.report.aggregate.topics import AMOUNTS
from kdissect.report.model.summary import (
    TopicClient,
    TopicRow,
    TopicUse,
)
from kdissect.report.partials import Partial
from kdissect.report.query.connection_facts import (
    CLIENT_COLUMNS,
    ConnectionFacts,
    client_name,
)
from kdissect.report.query.figures import LatencyGroups, latencies_of_calls

VOLUMES = ("mentions", "errors", *AMOUNTS)


def topic_names(partial: Partial) -> dict[str, str]:
    """Give the name of each topic id; of several names the one first in the alphabet, so that runs agree."""
    rows = partial.part(NAMES).to_pylist()
    rows.sort(key=lambda row: row["topic"] or "", reverse=True)
    return {
        row["topic_id"]: row["topic"]
        for row in rows
        if row["topic_id"] is not None and row["topic"] is not None
    }


class NamedTable(NamedTuple):
    """A part with the name of each row's topic: what the wire says, else what its id means, else the id."""

    columns: TableColumns
    topic: pa.Array


class TopicTables:
    """The topic parts of a partial under common names."""

    def __init__(
        self, partial: Partial, facts: ConnectionFacts, names: dict[str, str], api_names: dict[int, str]
    ) -> None:
        self.facts, self.names, self.api_names = facts, names, api_names
        self.flows, self.calls, self.latencies, self.partitions = (
            self._labelled(partial, part)
            for part in (TOPIC_FLOWS, TOPIC_CALLS, TOPIC_LATENCIES, TOPIC_PARTITIONS)
        )

    def _labelled(self, partial: Partial, part: PartialTable) -> NamedTable:
        columns = TableColumns(partial.part(part))
        ids = columns.plain("topic_id").dictionary_encode()
        resolved = pa.array(
            [self.names.get(value, value) for value in ids.dictionary.to_pylist()], pa.string()
        )
        meant = resolved.take(ids.indices)
        own = columns.plain("topic")
        return NamedTable(columns, pc.coalesce(own, meant))

    def rank(self, limit: int, client_limit: int) -> tuple[tuple[TopicRow, ...], int, int]:
        """Give topics by bytes, mentions and name; how many were left out; how many of their clients were left out."""
        topics = group_rows(encode(self.flows.topic))
        labels = self.flows.topic.take(pa.array(topics.first)).to_pylist()
        size, mentions = (
            sum_by_group(topics, self.flows.columns.ints(name)) for name in ("record_bytes", "mentions")
        )
        order = sorted(range(topics.count), key=lambda at: (-size[at], -mentions[at], labels[at]))
        kept = [labels[at] for at in order[:limit]]
        uses, left_out = self._uses(kept, client_limit)
        ids, partitions = self._seen(kept, "topic_id"), self._seen(kept, "partition")
        return (
            tuple(
                TopicRow(
                    topic=label,
                    topic_ids=tuple(sorted(ids[label])),
                    resolved=label not in ids[label],
                    partitions=len(partitions[label]),
                    uses=tuple(uses[label]),
                )
                for label in kept
            ),
            max(topics.count - limit, 0),
            left_out,
        )

    def _uses(self, kept: Sequence[str], client_limit: int) -> tuple[dict[str, list[TopicUse]], int]:
        flows, calls, latencies = (_within(part, kept) for part in (self.flows, self.calls, self.latencies))
        keys = [
            pa.concat_arrays([part.topic for part in (flows, calls, latencies)]),
            pa.concat_arrays([part.columns.plain("api_key") for part in (flows, calls, latencies)]),
        ]
        both = group_rows(*(encode(key) for key in keys))
        ends = np.cumsum([part.columns.rows for part in (flows, calls)])
        by_flow, by_call, by_latency = np.split(both.of, ends)
        groups = RowGroups(by_flow, both.count, both.first)
        volumes = {name: sum_by_group(groups, flows.columns.ints(name)) for name in VOLUMES}
        exchanges = sum_by_group(replace(groups, of=by_call), calls.columns.ints("exchanges"))
        service, idle = (
            latencies_of_calls(
                calls.columns, latencies.columns, LatencyGroups(by_call, by_latency, both.count), idle=idle
            )
            for idle in (False, True)
        )
        codecs = self._codecs(flows.columns, by_flow)
        label_of = keys[0].take(pa.array(both.first)).to_pylist()
        clients = self._clients(flows.columns, by_flow, calls.columns, by_call, label_of)
        found: dict[str, list[TopicUse]] = {label: [] for label in kept}
        left_out = 0
        api_keys, labels = (key.take(pa.array(both.first)).to_pylist() for key in reversed(keys))
        for group in sorted(range(both.count), key=lambda at: api_keys[at]):
            ranked = clients.get(group, [])
            left_out += max(len(ranked) - client_limit, 0)
            found[labels[group]].append(
                TopicUse(
                    api_key=api_keys[group],
                    api_name=self.api_names.get(api_keys[group]),
                    exchanges=int(exchanges[group]),
                    codecs=codecs.get(group, {}),
                    service=service.latency(group),
                    idle=idle.latency(group),
                    clients=tuple(ranked[:client_limit]),
                    **{name: int(volumes[name][group]) for name in VOLUMES},
                )
            )
        return found, left_out

    def _codecs(self, flows: TableColumns, use: Ints) -> dict[int, dict[str, int]]:
        groups = group_rows(encode(pa.array(use)), encode(flows.plain("codec")))
        size = sum_by_group(groups, flows.ints("record_bytes"))
        rows = zip(
            use[groups.first].tolist(),
            flows.plain("codec").take(pa.array(groups.first)).to_pylist(),
            size.tolist(),
            strict=True,
        )
        found: dict[int, dict[str, int]] = {}
        for group, codec, amount in sorted(row for row in rows if row[1] is not None):
            found.setdefault(group, {})[codec] = amount
        return found

    def _clients(
        self, flows: TableColumns, use: Ints, calls: TableColumns, call_use: Ints, label_of: Sequence[str]
    ) -> dict[int, list[TopicClient]]:
        rows = np.concatenate([self.facts.rows(flows), self.facts.rows(calls)])
        own = pa.concat_arrays([flows.plain("client_id"), calls.plain("client_id")])
        columns = [self.facts.client_ids(own, rows)]
        columns += [self.facts.taken(name, rows) for name in CLIENT_COLUMNS]
        both = np.concatenate([use, call_use])
        groups = group_rows(encode(pa.array(both)), *(encode(column) for column in columns))
        by_flow, by_call = (
            replace(groups, of=groups.of[: flows.rows]),
            replace(groups, of=groups.of[flows.rows :]),
        )
        sums = [
            sum_by_group(by_call, calls.ints("exchanges")),
            *(sum_by_group(by_flow, flows.ints(name)) for name in ("records", "record_bytes", "errors")),
        ]
        known = flows.known("first_ns")
        times = (
            lowest_by_group(by_flow, flows.ints("first_ns"), known).to_pylist(),
            highest_by_group(by_flow, flows.ints("last_ns"), known).to_pylist(),
        )
        names = list(
            zip(*(column.take(pa.array(groups.first)).to_pylist() for column in columns), strict=True)
        )
        uses = both[groups.first].tolist()
        member_of: dict[tuple[str, tuple[str | None, ...]], set[str]] = {}
        for member, group_id in zip(by_flow.of.tolist(), flows.plain("group_id").to_pylist(), strict=True):
            if group_id is not None:
                member_of.setdefault((label_of[uses[member]], names[member]), set()).add(group_id)
        found: dict[int, list[TopicClient]] = {}
        for use_at, name, amounts, first_ns, last_ns in zip(
            uses, names, zip(*(one.tolist() for one in sums), strict=True), *times, strict=True
        ):
            client = TopicClient(
                name=client_name(name[0], list(name[1:])),
                **dict(zip(("exchanges", "records", "record_bytes", "errors"), amounts, strict=True)),
                groups=tuple(sorted(member_of.get((label_of[use_at], name), ()))),
                first_time_ns=first_ns,
                last_time_ns=last_ns,
            )
            found.setdefault(use_at, []).append(client)
        for clients in found.values():
            clients.sort(key=lambda row: (-row.record_bytes, -row.exchanges, repr(row.name)))
        return found

    def _seen(self, kept: Sequence[str], name: str) -> dict[str, set[Any]]:
        """Give the distinct values of a column of the partitions by topic."""
        rows = _within(self.partitions, kept)
        found: dict[str, set[Any]] = {label: set() for label in kept}
        for label, value in zip(rows.topic.to_pylist(), rows.columns.plain(name).to_pylist(), strict=True):
            if value is not None:
                found[label].add(value)
        return found


def _within(part: NamedTable, kept: Sequence[str]) -> NamedTable:
    mask: Mask = pc.is_in(part.topic, pa.array(kept, pa.string())).to_numpy(zero_copy_only=False)
    if mask.all():
        return part
    return NamedTable(part.columns.filtered(mask), part.topic.filter(pa.array(mask)))
