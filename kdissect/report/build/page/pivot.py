"""The counts that the page adds up anew for each selection, in as little JSON as possible.

A slot is a client on a broker, with one connection or with all that are not singled out; in the pivot of
topics, with a topic. For each slot, API and kind of wait there is a list of steps [step, sums, cells]. `sums`
are in the order of `SUMS`, without zeros at the end. `cells` are in threes: the cell of latency, the count,
and the packet of the first. Light slots are merged until the text fits; the sums stay right.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from kdissect.array_types import Int64s
from kdissect.report.aggregate.grouping import TableColumns, map_distinct
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
CLIENT, OTHER = 0, 2  # columns of a slot
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


def make_pivot(names: PageNames, room: int = MOST_CHARACTERS) -> Plain:
    """Return the pivot in the finest detail that fits."""
    columns = sorted_columns(names.partial, ACTIVITY)
    rows = _fold_rows(names, columns, find_slots(names, columns), SUMS)
    result = _fitting(rows, DETAILS, min(max(room, LEAST_CHARACTERS), MOST_CHARACTERS))
    return result | {"sums": SUMS, "whole": _whole(names, rows, result["slots"])}


def make_topic_pivot(names: PageNames, topics: Sequence[str]) -> Plain:
    """Return the pivot of these topics, and which of them it holds in full."""
    columns = sorted_columns(names.partial, TOPIC_ACTIVITY)
    number = {topic: at for at, topic in enumerate(topics)}

    def place(topic: str | None, topic_id: str | None) -> int:
        return number.get(names.topic(topic, topic_id) or "", NOT_SINGLED_OUT)

    slots = find_slots(names, columns)
    slots[:, OTHER] = _numbered(place, columns.column("topic"), columns.column("topic_id"))
    rows = _fold_rows(names, columns, slots, TOPIC_SUMS).take(np.flatnonzero(slots[:, OTHER] >= 0))
    fitting = _fitting(rows, TOPIC_DETAILS, MOST_FOR_TOPICS, rest=False)
    counted = _exchanges_by(rows.slots[:, OTHER], rows, len(topics)).tolist()
    exact = {topic.topic: sum(use.exchanges for use in topic.uses) for topic in names.summary.topics}
    listed = {topic for _, _, topic in fitting["slots"]}
    whole = [at in listed and counted[at] == exact[topic] for at, topic in enumerate(topics)]
    return fitting | {"sums": TOPIC_SUMS, "whole": whole}


def _fold_rows(names: PageNames, columns: TableColumns, slots: Int64s, sums: Sequence[str]) -> FoldRows:
    """Return rows of ACTIVITY or TOPIC_ACTIVITY, the slot of each, and what it counts."""
    keys = (
        _numbered(names.api, columns.column("api_key")),
        columns.bools("idle_wait").astype(np.int64),
        columns.ints("step"),
        columns.ints("cell"),
    )
    return FoldRows(
        slots,
        np.column_stack(keys),
        names.packet_refs(columns),
        np.column_stack([columns.ints(name) for name in sums]),
    )


def _fitting(rows: FoldRows, details: Sequence[Detail], most: int, rest: bool = True) -> Plain:
    """Return the finest pivot whose text fits; without `rest`, it leaves out topics not singled out."""
    heavy = _heaviest(rows)
    for detail in details:
        folded = fold(rows, detail.clients, heavy[: detail.others], rest, LARGEST)
        if folded.json_size() <= most:
            break
    return {"slots": folded.slots, "series": folded.lists()}


def find_slots(names: PageNames, columns: TableColumns) -> Int64s:
    """Return the slot of each row, which has the hosts of both ends and maybe a connection."""
    client_ids = columns.arrow("client_id")
    rows = np.full(columns.rows, NOT_SINGLED_OUT, np.int64)
    if "connection" in columns.table.schema.names:
        rows = names.facts.rows(columns)
        client_ids = names.facts.client_ids(client_ids, rows)

    return np.column_stack(
        [
            _numbered(names.client, client_ids, columns.column("client_host")),
            _numbered(names.broker, columns.column("server_host"), columns.column("server_port")),
            rows,
        ]
    )


def _numbered(number: Callable[..., int], *columns: pa.Array) -> Int64s:
    """Return a number for each row, which is asked for once for rows that are equal."""
    numbers, of = map_distinct(number, *columns)
    return np.array(numbers, np.int64)[of]


def _exchanges_by(numbers: Int64s, rows: FoldRows, count: int) -> Int64s:
    """Return the exchanges of the rows with each number below `count`; those of -1 are the last."""
    sums = np.zeros(count + 1, np.int64)
    np.add.at(sums, numbers, rows.sums[:, 0])
    return sums


def _heaviest(rows: FoldRows) -> list[int]:
    """Return connections or topics by the number of their exchanges."""
    others = rows.slots[:, OTHER]
    exchanges = _exchanges_by(others, rows, int(others.max(initial=0)) + 1)[:-1]
    seen = np.unique(others[others >= 0])
    by_weight: list[int] = seen[np.argsort(-exchanges[seen], kind="stable")].tolist()
    return by_weight


def _whole(names: PageNames, rows: FoldRows, slots: Sequence[Slot]) -> Plain:
    """Return which clients and connections the pivot holds in full: only those may be narrowed by time."""
    listed = {client for client, _, _ in slots}
    kept = sorted({connection for _, _, connection in slots if connection >= 0})
    by_client = _exchanges_by(rows.slots[:, CLIENT], rows, len(names.clients.keys)).tolist()
    connections = len(names.facts.numbers)
    by_connection = _exchanges_by(rows.slots[:, OTHER], rows, connections)
    calls = names.calls.each
    expected = np.zeros(connections + 1, np.int64)  # the last for connections without facts
    np.add.at(expected, names.facts.rows(calls), calls.ints("exchanges"))
    return {
        "clients": [
            number in listed and by_client[number] == figures.exchanges
            for number, figures in enumerate(names.clients.figures)
        ],
        "connections": [one for one in kept if by_connection[one] == expected[one]],
    }


def list_failures(names: PageNames) -> list[list[int | None]]:
    """Return a row for each error code, in the finest detail that fits.

    A row is step, API, code, client, broker, connection, exchanges, packet of the first.
    """
    columns = sorted_columns(names.partial, FAILURES)
    slots = find_slots(names, columns).tolist()
    rows = columns.dicts()
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
