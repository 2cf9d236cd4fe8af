"""The counts that the page adds up anew for each selection, in as little JSON as possible.

A slot is a client on a broker, with one connection or with all that are not singled out; in the pivot of
topics, with a topic. For each slot, API and kind of wait there is a list of steps [step, sums, cells]. `sums`
are in the order of `SUMS`, without zeros at the end. `cells` are in threes: the cell of latency, the count,
and the packet of the first. Light slots are merged until the text fits; the sums stay right.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from kdissect.report.aggregate.grouping import TableColumns
from kdissect.report.build.page.page_names import (
    NOT_SINGLED_OUT,
    PageNames,
    Plain,
    sorted_columns,
)
from kdissect.report.build.page.pivot_fold import FoldRows, Slot, fold
from kdissect.report.build.page.size_budget import json_size
from kdissect.report.timeline.timeline_tables import (
    ACTIVITY,
    FAILURES,
    TOPIC_ACTIVITY,
)

SUMS = (
    "exchanges",
    "error_responses",
    "unanswered",
    "latency_ns",
    "latency_max_ns",
    "upload_ns",
    "transfer_ns",
    "request_bytes",
    "response_bytes",
    "throttled",
    "throttle_ms",
)
TOPIC_SUMS = (SUMS[0], "errors", *SUMS[2:], "records", "record_bytes")
"""An exchange that names several topics counts for each of them; errors are of the topic's partitions."""

LARGEST = SUMS.index("latency_max_ns")
MOST_CHARACTERS, LEAST_CHARACTERS = 1_400_000, 300_000
MOST_FOR_TOPICS, MOST_FOR_FAILURES = 400_000, 200_000


class Detail(NamedTuple):
    """How many clients are singled out, and how many connections or topics."""

    clients: int
    others: int


DETAILS = (
    Detail(300, 400),
    Detail(300, 100),
    Detail(300, 0),
    Detail(100, 0),
    Detail(40, 0),
    Detail(15, 0),
    Detail(0, 0),
)
TOPIC_DETAILS = (
    Detail(300, 200),
    Detail(100, 200),
    Detail(30, 200),
    Detail(0, 200),
    Detail(0, 80),
    Detail(0, 30),
    Detail(0, 10),
    Detail(0, 3),
    Detail(0, 0),
)


class PivotRows(NamedTuple):
    """Rows of ACTIVITY or TOPIC_ACTIVITY: the slot of each, and what it counts."""

    slots: list[Slot]
    rows: list[tuple[Any, ...]]


def make_pivot(names: PageNames, room: int = MOST_CHARACTERS) -> Plain:
    """Return the pivot in the finest detail that fits."""
    columns = sorted_columns(names.partial, ACTIVITY)
    cells = PivotRows(find_slots(names, columns), _counts(names, columns, SUMS))
    result = _fitting(cells, DETAILS, min(max(room, LEAST_CHARACTERS), MOST_CHARACTERS))
    return result | {"sums": SUMS, "whole": _whole(names, cells, result["slots"])}


def make_topic_pivot(names: PageNames, topics: Sequence[str]) -> Plain:
    """Return the pivot of these topics, and which of them it holds in full."""
    columns = sorted_columns(names.partial, TOPIC_ACTIVITY)
    number = {topic: at for at, topic in enumerate(topics)}
    named = zip(columns.arrow("topic").to_pylist(), columns.arrow("topic_id").to_pylist(), strict=True)
    result = [number.get(names.topic(*one) or "", NOT_SINGLED_OUT) for one in named]
    slots = [
        (client, broker, topic)
        for (client, broker, _), topic in zip(find_slots(names, columns), result, strict=True)
    ]
    rows = _counts(names, columns, TOPIC_SUMS)
    kept = [at for at, topic in enumerate(result) if topic >= 0]
    cells = PivotRows([slots[at] for at in kept], [rows[at] for at in kept])
    fitting = _fitting(cells, TOPIC_DETAILS, MOST_FOR_TOPICS, rest=False)
    counted = [0] * len(topics)
    for (_, _, topic), row in zip(*cells, strict=True):
        counted[topic] += row[-1][0]
    exact = {topic.topic: sum(use.exchanges for use in topic.uses) for topic in names.summary.topics}
    listed = {topic for _, _, topic in fitting["slots"]}
    whole = [at in listed and counted[at] == exact[topic] for at, topic in enumerate(topics)]
    return fitting | {"sums": TOPIC_SUMS, "whole": whole}


def _counts(names: PageNames, columns: TableColumns, sums: Sequence[str]) -> list[tuple[Any, ...]]:
    apis = {key: names.api(key) for key in set(columns.arrow("api_key").to_pylist())}
    refs = [
        names.row_ref(row)
        for row in columns.table.select(["capture_file", "request_packet", "response_packet"]).to_pylist()
    ]
    return list(
        zip(
            (apis[key] for key in columns.arrow("api_key").to_pylist()),
            columns.bools("idle_wait").astype(int).tolist(),
            columns.ints("step").tolist(),
            columns.ints("cell").tolist(),
            refs,
            zip(*(columns.ints(name).tolist() for name in sums), strict=True),
            strict=True,
        )
    )


def _fitting(cells: PivotRows, details: Sequence[Detail], most: int, rest: bool = True) -> Plain:
    """Return the finest pivot whose text fits; without `rest`, it leaves out topics not singled out."""
    heavy, rows = _heaviest(cells), FoldRows.of(*cells)
    for detail in details:
        slots, series = fold(rows, detail.clients, heavy[: detail.others], rest, LARGEST)
        if json_size(series) <= most:
            break
    return {"slots": slots, "series": series}


def find_slots(names: PageNames, columns: TableColumns) -> list[Slot]:
    """Return the slot of each row, which has the hosts of both ends and maybe a connection."""
    known = "connection" in columns.table.schema.names
    client_ids = columns.arrow("client_id")
    rows = np.full(columns.rows, -1, np.int64)
    if known:
        rows = names.facts.rows(columns)
        client_ids = names.facts.client_ids(client_ids, rows)
    ends = (columns.arrow(name).to_pylist() for name in ("client_host", "server_host", "server_port"))
    return [
        (
            names.client(client_id, host),
            names.brokers.numbers.get((server_host, server_port), NOT_SINGLED_OUT),
            row,
        )
        for client_id, row, host, server_host, server_port in zip(
            client_ids.to_pylist(), rows.tolist(), *ends, strict=True
        )
    ]


def _heaviest(cells: PivotRows) -> list[int]:
    """Return connections or topics by the number of their exchanges."""
    weight: dict[int, int] = {}
    for (_, _, one), row in zip(cells.slots, cells.rows, strict=True):
        weight[one] = weight.get(one, 0) + row[-1][0]
    return sorted((one for one in weight if one >= 0), key=lambda one: (-weight[one], one))


def _whole(names: PageNames, cells: PivotRows, slots: Sequence[Slot]) -> Plain:
    """Return which clients and connections the pivot holds in full: only those may be narrowed by time."""
    listed = {client for client, _, _ in slots}
    by_client = [0] * len(names.clients.keys)
    by_connection: dict[int, int] = {}
    for (client, _, connection), row in zip(cells.slots, cells.rows, strict=True):
        if client >= 0:
            by_client[client] += row[-1][0]
        by_connection[connection] = by_connection.get(connection, 0) + row[-1][0]
    kept = {connection for _, _, connection in slots if connection >= 0}
    ranking = names.calls
    expected = np.zeros(len(names.facts.numbers) + 1, np.int64)  # the last for connections without facts
    np.add.at(expected, ranking.rows, ranking.calls.ints("exchanges"))
    return {
        "clients": [
            number in listed and count == figures.exchanges
            for number, (count, figures) in enumerate(zip(by_client, names.clients.figures, strict=True))
        ],
        "connections": sorted(one for one in kept if by_connection[one] == int(expected[one])),
    }


def list_failures(names: PageNames) -> list[list[int | None]]:
    """Return a row for each error code, in the finest detail that fits.

    A row is step, API, code, client, broker, connection, exchanges, packet of the first.
    """
    columns = sorted_columns(names.partial, FAILURES)
    slots = find_slots(names, columns)
    rows = columns.table.to_pylist()
    for detail in (DETAILS[0], DETAILS[2], DETAILS[-1]):
        result: dict[tuple[int, ...], list[int | None]] = {}
        for row, (client, broker, connection) in zip(rows, slots, strict=True):
            who = client if client < detail.clients else NOT_SINGLED_OUT
            key = (
                row["step"],
                names.api(row["api_key"]),
                row["code"],
                who,
                broker,
                connection if detail.others else NOT_SINGLED_OUT,
            )
            counts = result.setdefault(key, [0, names.row_ref(row)])
            counts[0] = (counts[0] or 0) + row["exchanges"]
        listed = [[*key, *counts] for key, counts in result.items()]
        if json_size(listed) <= MOST_FOR_FAILURES:
            break
    return listed
