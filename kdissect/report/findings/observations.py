"""Observations and consumer lags from the tables of a partial, with names, addresses and locations."""

from typing import NamedTuple

import numpy as np

from kdissect.report.aggregate.grouping import TableColumns, iterate_rows
from kdissect.report.aggregate.partial_tables import FINDING_INPUTS, LAGS
from kdissect.report.findings.finding_context import ConsumerLag, Observation
from kdissect.report.model.findings import Location
from kdissect.report.model.limited import Limited
from kdissect.report.partials import Partial
from kdissect.report.query.connection_facts import ConnectionFacts, capture_locations
from kdissect.report.query.topic_names import TopicNames
from kdissect.report.wording import client_text

MAX_OBSERVATIONS = 100_000
"""Groups of exchanges that findings look at: those with the most exchanges, the others count as omitted."""


def find_observations(partial: Partial, facts: ConnectionFacts, topics: TopicNames) -> Limited[Observation]:
    """Return the observations in the order of time."""
    table = partial.table(FINDING_INPUTS)
    columns = TableColumns(table)
    order = np.lexsort((columns.ints("first_ns"), -columns.ints("exchanges")))
    columns = TableColumns(table.take(order[:MAX_OBSERVATIONS]))
    connections = facts.rows(columns)
    ends, software = (
        facts.column_at(name, connections).to_pylist() for name in ("last_time_ns", "client_software_name")
    )
    complete = facts.complete(connections).tolist()
    locations = capture_locations(columns, columns.table["first_ns"].to_pylist(), facts, topics)
    own = [name for name in Observation._fields if name in columns.table.schema.names]
    observations = [
        Observation(**row, closed_ns=end if is_complete else None, software=software_name, location=location)
        for row, end, is_complete, software_name, location in zip(
            iterate_rows(columns.table.select(own)), ends, complete, software, locations, strict=True
        )
    ]
    observations.sort(key=lambda observation: (observation.first_ns, repr(observation)))
    return Limited(tuple(observations), max(len(order) - MAX_OBSERVATIONS, 0))


class _Edge(NamedTuple):
    """The first or the last fetch of a client from a partition, on one connection."""

    order_ns: int
    lag: int
    most: int
    location: Location


def find_consumer_lags(
    partial: Partial, facts: ConnectionFacts, topics: TopicNames
) -> tuple[ConsumerLag, ...]:
    """Return the lag of each client in each partition; several connections of a client count together."""
    columns = TableColumns(partial.table(LAGS))
    times = np.abs(columns.ints("order_ns")).tolist()
    locations = capture_locations(columns, times, facts, topics)
    edges: dict[tuple[str, str, int], dict[str, list[_Edge]]] = {}
    for row, location in zip(iterate_rows(columns.table), locations, strict=True):
        client = client_text(location.client_id, location.client_host)
        of_client = edges.setdefault(
            (client, location.topic or "?", row["partition"]), {"first": [], "last": []}
        )
        of_client[row["edge"]].append(_Edge(row["order_ns"], row["lag"], row["most"], location))
    lags = []
    for (client, topic, _), by_edge in sorted(edges.items()):
        first, last = (min(by_edge[name], key=lambda edge: edge[:2]) for name in ("first", "last"))
        most = max(edge.most for edge in by_edge["first"])
        lags.append(
            ConsumerLag(
                client=client,
                topic=topic,
                before=first.lag,
                after=last.lag,
                most=most,
                first_ns=first.order_ns,
                last_ns=-last.order_ns,
                location=first.location,
            )
        )
    return tuple(lags)
