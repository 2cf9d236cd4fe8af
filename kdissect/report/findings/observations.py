"""Observations and consumer lags from the tables of a partial, with names, addresses and locations."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from kdissect.array_types import Int64s
from kdissect.report.aggregate.grouping import (
    RowGroups,
    TableColumns,
    encode,
    encode_range,
    group_rows,
    name_distinct,
)
from kdissect.report.aggregate.partial_tables import FINDING_INPUTS, LAGS
from kdissect.report.findings.finding_context import ConsumerLag, Observation
from kdissect.report.model.limited import Limited
from kdissect.report.partials import Partial
from kdissect.report.query.connection_facts import ConnectionFacts, capture_locations
from kdissect.report.query.topic_names import TopicNames
from kdissect.report.wording import client_text

MAX_OBSERVATIONS = 100_000
"""Groups of exchanges that findings look at: those with the most exchanges, the others count as omitted."""


def find_observations(partial: Partial, facts: ConnectionFacts, topics: TopicNames) -> Limited[Observation]:
    """Return the observations in the order of time."""
    columns = partial.columns(FINDING_INPUTS)
    order = np.lexsort((columns.ints("first_ns"), -columns.ints("exchanges")))
    kept = order[:MAX_OBSERVATIONS]
    columns = columns.take(kept[np.argsort(columns.ints("first_ns")[kept], kind="stable")])
    connections = facts.rows(columns)
    ends, software = (
        facts.column_at(name, connections).to_pylist() for name in ("last_time_ns", "client_software_name")
    )
    complete = facts.complete(connections).tolist()
    locations = capture_locations(columns, columns.values("first_ns"), facts, topics)
    values: dict[str, Iterable[Any]] = {
        "closed_ns": (end if is_complete else None for end, is_complete in zip(ends, complete, strict=True)),
        "software": software,
        "location": locations,
    }
    for name in Observation._fields:
        if name not in values:
            values[name] = columns.values(name)
    observations = list(map(Observation, *(values[name] for name in Observation._fields)))
    _order_moments(observations, columns.ints("first_ns"))
    return Limited(tuple(observations), max(len(order) - MAX_OBSERVATIONS, 0))


def _order_moments(observations: list[Observation], first_ns: Int64s) -> None:
    """Order observations, which are in the order of time, by their text where they share a moment.

    The texts of all of them would take a fifth of the time of finding them, and few share a moment.
    """
    edges = np.flatnonzero(np.r_[True, first_ns[1:] != first_ns[:-1], True])
    for at in np.flatnonzero(np.diff(edges) > 1).tolist():
        together = slice(edges[at], edges[at + 1])
        observations[together] = sorted(observations[together], key=repr)


def find_consumer_lags(
    partial: Partial, facts: ConnectionFacts, topics: TopicNames
) -> tuple[ConsumerLag, ...]:
    """Return the lag of each client in each partition; several connections of a client count together."""
    columns = partial.columns(LAGS)
    clients = name_distinct(client_text, *_client_columns(columns, facts))
    names = name_distinct(topics.name, columns.column("topic"), columns.column("topic_id"))
    groups = group_rows(encode(clients), encode(names), encode_range(columns.ints("partition")))
    is_first = columns.equals("edge", "first")
    firsts, lasts = (_earliest(columns, groups, np.flatnonzero(edge)) for edge in (is_first, ~is_first))
    most = np.zeros(groups.count, np.int64)
    np.maximum.at(most, groups.of[is_first], columns.ints("most")[is_first])
    times = columns.ints("order_ns")
    # No location is made of the other rows: a client may have 100,000 connections.
    locations = capture_locations(columns.take(firsts), times[firsts].tolist(), facts, topics)
    lags = [
        ConsumerLag(
            client=client,
            topic=topic or "?",
            before=int(columns.ints("lag")[first]),
            after=int(columns.ints("lag")[last]),
            most=int(highest),
            first_ns=int(times[first]),
            last_ns=-int(times[last]),
            location=location,
        )
        for client, topic, first, last, highest, location in zip(
            *(texts.take(firsts).tolist() for texts in (clients, names)),
            *(firsts, lasts, most, locations),
            strict=True,
        )
    ]
    return tuple(sorted(lags, key=lambda lag: (lag.client, lag.topic, lag.location.partition)))


def _client_columns(columns: TableColumns, facts: ConnectionFacts) -> tuple[pa.Array, pa.Array]:
    """Return the client id and the host of each row."""
    rows = facts.rows(columns)
    return facts.client_ids(columns.arrow("client_id"), rows), facts.column_at("client_host", rows)


def _earliest(columns: TableColumns, groups: RowGroups, rows: Int64s) -> Int64s:
    """Return the first of some rows of each group, by time and then by lag."""
    order = rows[np.lexsort((columns.ints("lag")[rows], columns.ints("order_ns")[rows], groups.of[rows]))]
    _, first = np.unique(groups.of[order], return_index=True)
    return order[first]
