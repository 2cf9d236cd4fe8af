"""The counts that the page adds up anew for each selection, written as small as JSON can be.

A slot is a client on a broker, on one connection or on all that are not told apart. For each slot, API and kind of wait
there is a list of steps [step, sums, cells]: `sums` in the order of `SUMS`, zeros at the end left out; `cells` in threes, the cell of
latency, how many, and the packet of the first. What is light is folded until the text fits: the sums stay right.
"""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from kdissect.report.columns import Columns
from kdissect.report.course.parts import FAILURES, MOMENTS, TOPIC_MOMENTS
from kdissect.report.html.names import OTHERS, Names, Plain, columns_of

SUMS = (
    "exchanges", "error_responses", "unanswered", "latency_ns", "latency_max_ns", "upload_ns", "transfer_ns", "request_bytes",
    "response_bytes", "throttled", "throttle_ms",
)  # fmt: skip
LARGEST = SUMS.index("latency_max_ns")
TOPIC_SUMS = ("exchanges", "errors", "timed", "latency_ns", "records", "record_bytes")
MOST_CHARACTERS = 1_400_000
MOST_TOPICS = 200


class Detail(NamedTuple):
    """How many clients and how many connections are told apart."""

    clients: int
    connections: int


DETAILS = (
    Detail(300, 400), Detail(300, 100), Detail(300, 0), Detail(100, 0), Detail(40, 0), Detail(15, 0), Detail(0, 0),
)  # fmt: skip

Slot = tuple[int, int, int]


class Cells(NamedTuple):
    """Rows of MOMENTS by number: client, broker and connection of each, and what it counts."""

    slots: list[Slot]
    rows: list[tuple[Any, ...]]


def cube(names: Names) -> Plain:
    """Give the cube in the finest detail that fits."""
    cells = _cells(names)
    heavy = _heaviest(cells)
    for detail in DETAILS:
        found = _folded(cells, detail, heavy)
        if len(json.dumps(found["series"], separators=(",", ":"))) <= MOST_CHARACTERS:
            break
    whole = _whole(names, cells, found["slots"])
    return found | {"sums": SUMS, "whole": whole}


def _cells(names: Names) -> Cells:
    columns = columns_of(names.partial, MOMENTS)
    slots = slots_of(names, columns)
    apis = {key: names.api(key) for key in set(columns.plain("api_key").to_pylist())}
    refs = [names.ref_of(row) for row in columns.table.select(["capture_file", "request_packet", "response_packet"]).to_pylist()]  # fmt: skip
    keys = zip(
        (apis[key] for key in columns.plain("api_key").to_pylist()),
        columns.truths("idle_wait").astype(int).tolist(),
        columns.ints("step").tolist(),
        columns.ints("cell").tolist(),
        refs,
        zip(*(columns.ints(name).tolist() for name in SUMS), strict=True),
        strict=True,
    )
    return Cells(slots, list(keys))


def slots_of(names: Names, columns: Columns) -> list[Slot]:
    """Give the slot of each row that has the columns of both ends and maybe a connection."""
    known = "connection" in columns.table.schema.names
    client_ids = columns.plain("client_id")
    rows = np.full(columns.rows, -1, np.int64)
    if known:
        rows = names.facts.rows(columns)
        client_ids = names.facts.client_ids(client_ids, rows)
    ends = (columns.plain(name).to_pylist() for name in ("client_host", "server_host", "server_port"))
    return [
        (
            names.client(client_id, host),
            names.brokers.numbers.get((server_host, server_port), OTHERS),
            row,
        )
        for client_id, row, host, server_host, server_port in zip(
            client_ids.to_pylist(), rows.tolist(), *ends, strict=True
        )
    ]


def _heaviest(cells: Cells) -> list[int]:
    """Give connections by the number of their exchanges."""
    weight: dict[int, int] = {}
    for (_, _, connection), row in zip(cells.slots, cells.rows, strict=True):
        weight[connection] = weight.get(connection, 0) + row[-1][0]
    return sorted((one for one in weight if one >= 0), key=lambda one: (-weight[one], one))


def _folded(cells: Cells, detail: Detail, heavy: Sequence[int]) -> Plain:
    kept = set(heavy[: detail.connections])
    numbers: dict[Slot, int] = {}
    found: dict[tuple[int, int, int], dict[int, tuple[list[int], dict[int, list[int | None]]]]] = {}
    for (client, broker, connection), (api, idle, step, cell, ref, sums) in zip(*cells, strict=True):
        who = client if client < detail.clients else OTHERS
        slot = numbers.setdefault(
            (who, broker, connection if connection in kept and who >= 0 else OTHERS), len(numbers)
        )
        total, by_cell = found.setdefault((slot, api, idle), {}).setdefault(step, ([0] * len(SUMS), {}))
        for at, value in enumerate(sums):
            total[at] = max(total[at], value) if at == LARGEST else total[at] + value
        one = by_cell.setdefault(cell, [0, ref])
        one[0] = (one[0] or 0) + sums[0]
    series = [
        [*key, [[step, _trimmed(total), _flat(by_cell)] for step, (total, by_cell) in sorted(steps.items())]]
        for key, steps in sorted(found.items())
    ]
    return {"slots": list(numbers), "series": series}


def _trimmed(sums: list[int]) -> list[int]:
    last = max((at for at, value in enumerate(sums) if value), default=0)
    return sums[: last + 1]


def _flat(by_cell: dict[int, list[int | None]]) -> list[int | None]:
    return [value for cell, (count, ref) in sorted(by_cell.items()) for value in (cell, count, ref)]


def _whole(names: Names, cells: Cells, slots: Sequence[Slot]) -> Plain:
    """Tell which clients and connections the cube holds in full: only those may be narrowed by time."""
    told = {client for client, _, _ in slots}
    by_client = [0] * len(names.clients.keys)
    by_connection: dict[int, int] = {}
    for (client, _, connection), row in zip(cells.slots, cells.rows, strict=True):
        if client >= 0:
            by_client[client] += row[-1][0]
        by_connection[connection] = by_connection.get(connection, 0) + row[-1][0]
    kept = {connection for _, _, connection in slots if connection >= 0}
    ranking = names.ranking
    expected = np.zeros(len(names.facts.numbers) + 1, np.int64)  # the last for connections without facts
    np.add.at(expected, ranking.rows, ranking.calls.ints("exchanges"))
    return {
        "clients": [
            number in told and count == figures.exchanges
            for number, (count, figures) in enumerate(zip(by_client, names.clients.figures, strict=True))
        ],
        "connections": sorted(one for one in kept if by_connection[one] == int(expected[one])),
    }


def failures(names: Names) -> list[list[int | None]]:
    """Give [step, api, code, client, broker, connection, exchanges, packet] for each error code."""
    columns = columns_of(names.partial, FAILURES)
    return [
        [row["step"], names.api(row["api_key"]), row["code"], *slot, row["exchanges"], names.ref_of(row)]
        for row, slot in zip(columns.table.to_pylist(), slots_of(names, columns), strict=True)
    ]


def topic_cube(names: Names) -> Plain:
    """Give the topics that weigh most, and [topic, step, api, client, broker, packet, sums…] for them."""
    columns = columns_of(names.partial, TOPIC_MOMENTS)
    rows, slots = columns.table.to_pylist(), slots_of(names, columns)
    wanted = [topic.topic for topic in names.summary.topics[:MOST_TOPICS]]
    number = {topic: at for at, topic in enumerate(wanted)}
    found: list[list[int | None]] = []
    size, counted = 0, [0] * len(wanted)
    for row, (client, broker, _) in zip(rows, slots, strict=True):
        topic = number.get(names.topic(row["topic"], row["topic_id"]) or "")
        if topic is None:
            continue
        counted[topic] += row["exchanges"]
        found.append([topic, row["step"], names.api(row["api_key"]), client, broker, names.ref_of(row), *(row[name] for name in TOPIC_SUMS)])  # fmt: skip
    while found and (size := len(json.dumps(found, separators=(",", ":")))) > MOST_CHARACTERS // 3:
        lightest = max(row[0] or 0 for row in found)
        keep = max(lightest * MOST_CHARACTERS // 3 // size, 0)
        found = [row for row in found if (row[0] or 0) < keep]
    exact = [sum(use.exchanges for use in topic.uses) for topic in names.summary.topics[:MOST_TOPICS]]
    told = {row[0] for row in found}
    whole = [at in told and counted[at] == exact[at] for at in range(len(wanted))]
    return {"rows": found, "sums": TOPIC_SUMS, "whole": whole}
