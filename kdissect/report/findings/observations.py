"""Observations and consumer lags from the tables of a partial, with names, addresses and locations."""

from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from kdissect.report.aggregate.grouping import TableColumns
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
    values: dict[str, Iterable[Any]] = {
        "closed_ns": (end if is_complete else None for end, is_complete in zip(ends, complete, strict=True)),
        "software": software,
        "location": locations,
    }
    for name in Observation._fields:
        if name not in values:
            values[name] = columns.table[name].to_pylist()
    observations = map(Observation, *(values[name] for name in Observation._fields))
    return Limited(tuple(_in_time(observations)), max(len(order) - MAX_OBSERVATIONS, 0))


def _in_time(observations: Iterable[Observation]) -> Iterator[Observation]:
    """Yield observations in the order of time, those of one moment in the order of their text.

    The texts of all of them would take a fifth of the time of finding them, and few share a moment.
    """
    moment = attrgetter("first_ns")
    for _, together in groupby(sorted(observations, key=moment), moment):
        first, *others = together
        yield from sorted([first, *others], key=repr) if others else (first,)


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
    own = (columns.table[name].to_pylist() for name in ("edge", "order_ns", "lag", "most"))
    for location, edge, order_ns, lag, most in zip(locations, *own, strict=True):
        client = client_text(location.client_id, location.client_host)
        of_client = edges.setdefault(
            (client, location.topic or "?", location.partition), {"first": [], "last": []}
        )
        of_client[edge].append(_Edge(order_ns, lag, most, location))
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
