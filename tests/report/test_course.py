"""The course of events against plain loops over rows, and by hand where figures can be worked out on paper."""

from collections import defaultdict

import numpy as np
import pyarrow as pa
import pytest

from kdissect.report.aggregate.grouping import TableColumns
from kdissect.report.aggregate.partial_tables import PartialTable, roll_up
from kdissect.report.aggregate.row_limits import limit_rows
from kdissect.report.partials import (
    ALL_TABLES,
    merge,
    summarise,
)
from kdissect.report.timeline.grid import (
    MAX_STEPS,
    Grid,
    grid_over,
)
from kdissect.report.timeline.timeline_tables import (
    ACTIVITY,
    FAILURES,
    POSITIONS,
    SEQUENCES,
    TIMELINE_TABLES,
    TOPIC_ACTIVITY,
)
from kdissect.tables.schemas import (
    ENDS,
    INT64,
    TEXT,
)
from tests.helpers import synthetic_tables as synthetic
from tests.report import plain_report as oracle

S = 10**9
SECONDS = Grid(synthetic.START_NS, 5_000_000, 100)
WHO = ("client_id", "client_host", "server_host", "server_port", "connection")


def with_ends(tables):
    return tables | {"ends": tables["connections"].select(ENDS.names)}


@pytest.mark.parametrize(
    ("first", "last", "step"),
    [(0, 10 * S, 100_000_000), (0, 59 * S, 500_000_000), (0, 3600 * S, 60 * S), (5 * S, 5 * S, 1_000_000), (0, 10**19, None)],
)  # fmt: skip
def test_grid(first, last, step):
    grid = grid_over(first, last)
    assert step is None or grid.step_ns == step
    assert 1 <= grid.steps <= MAX_STEPS
    assert grid.start_ns <= first
    assert grid.start_ns % grid.step_ns == 0
    if last < 1 << 62:
        assert grid.steps_of(np.array([first, last])).max() == grid.steps - 1
        assert grid.start_ns + grid.steps * grid.step_ns > last
        assert grid.steps_of(np.array([first - 10**12, last + 10**12])).tolist() == [0, grid.steps - 1]


@pytest.fixture(scope="module", params=[1, 2])
def counted(request):
    """Give random tables, their parts, and their rows with the facts of connections."""
    tables = with_ends(synthetic.tables(np.random.default_rng(request.param), 2000))
    connections = {row["connection"]: row for row in tables["connections"].to_pylist()}
    rows = tables["exchanges"].to_pylist()
    for row in rows:
        connection = connections[row["connection"]]
        row |= {name: connection[name] for name in ("client_host", "server_host", "server_port")}
        row["began"] = (
            row["response_first_ns"] if row["request_first_ns"] is None else row["request_first_ns"]
        )
        row["step"] = (row["began"] - SECONDS.start_ns) // SECONDS.step_ns
    return tables, summarise(tables, SECONDS), rows


def test_moments(counted):
    _, partial, rows = counted
    expected = defaultdict(lambda: defaultdict(int))
    for row in rows:
        sums = expected[tuple(row[name] for name in ("step", "api_key", *WHO)), bool(row["idle_wait"])]
        sound = oracle.sound(row)
        sums["exchanges"] += 1
        sums["timed"] += sound
        sums["latency_ns"] += row["latency_ns"] if sound else 0
        sums["latency_max_ns"] = max(sums["latency_max_ns"], row["latency_ns"] if sound else 0)
        sums["error_responses"] += (row["error_code"] or 0) != 0
        sums["unanswered"] += row["status"] == "unanswered"
        sums["request_bytes"] += row["request_bytes"] or 0
        sums["response_bytes"] += row["response_bytes"] or 0
        sums["throttle_ms"] += row["throttle_ms"] or 0
        sums["transfer_ns"] += (row["response_last_ns"] or 0) - (row["response_first_ns"] or 0)
    found = defaultdict(lambda: defaultdict(int))
    for row in partial.table(ACTIVITY).to_pylist():
        sums = found[tuple(row[name] for name in ("step", "api_key", *WHO)), row["idle_wait"]]
        for name in ACTIVITY.sums:
            sums[name] += row[name]
        sums["timed"] += row["exchanges"] * (row["cell"] >= 0)
        sums["latency_max_ns"] = max(sums["latency_max_ns"], row["latency_max_ns"])
    assert found.keys() == expected.keys()
    for key, sums in expected.items():
        assert {name: found[key][name] for name in sums} == dict(sums), key


def test_an_example_is_the_first_of_its_cell(counted):
    _, partial, rows = counted
    packets = {row["request_packet"] or row["response_packet"]: row for row in rows}
    for row in partial.table(ACTIVITY).to_pylist():
        example = packets[row["request_packet"] or row["response_packet"]]
        assert example["began"] == row["order_ns"]
        assert all(example[name] == row[name] for name in ("step", "api_key", *WHO))


def test_failures(counted):
    tables, partial, rows = counted
    exchange = {(row["connection"], row["ordinal"]): row for row in rows if row["ordinal"] is not None}
    codes = {((row["connection"], row["ordinal"]), row["error_code"]) for row in rows if row["error_code"]}
    codes |= {((row["connection"], row["ordinal"]), row["error_code"]) for row in tables["partitions"].to_pylist() if row["error_code"]}  # fmt: skip
    expected = defaultdict(int)
    for place, code in codes:
        expected[exchange[place]["step"], exchange[place]["api_key"], code] += 1
    found = defaultdict(int)
    for row in partial.table(FAILURES).to_pylist():
        found[row["step"], row["api_key"], row["code"]] += row["exchanges"]
    assert found == expected


def test_topic_moments(counted):
    tables, partial, rows = counted
    exchange = {(row["connection"], row["ordinal"]): row for row in rows if row["ordinal"] is not None}
    expected = defaultdict(lambda: [set(), 0, 0, 0])
    for row in tables["partitions"].to_pylist():
        sender = exchange[row["connection"], row["ordinal"]]
        sums = expected[sender["step"], row["api_key"], row["topic"], row["topic_id"], sender["client_id"]]
        sums[0].add((row["connection"], row["ordinal"]))
        for at, amount in enumerate(
            (row["records"] or 0, row["record_bytes"] or 0, (row["error_code"] or 0) != 0), 1
        ):
            sums[at] += amount
    found = defaultdict(lambda: [0, 0, 0, 0])
    for row in partial.table(TOPIC_ACTIVITY).to_pylist():
        sums = found[row["step"], row["api_key"], row["topic"], row["topic_id"], row["client_id"]]
        for at, name in enumerate(("exchanges", "records", "record_bytes", "errors")):
            sums[at] += row[name]
    assert found == {key: [len(sums[0]), *sums[1:]] for key, sums in expected.items()}


def test_the_same_however_rows_are_dealt_out(counted):
    tables, whole, _ = counted
    rng = np.random.default_rng(5)
    dealt = synthetic.in_batches(rng, {name: table for name, table in tables.items() if name != "ends"}, 7)
    partials = [summarise(part | {"ends": tables["ends"]}, SECONDS) for part in dealt]
    rng.shuffle(partials)
    merged = merge([merge(partials[:3]), merge(partials[3:])])
    for name in TIMELINE_TABLES.keys() - {"group_steps", "transaction_steps"}:
        part = ALL_TABLES[name]
        order = [(column, "ascending") for column, _ in part.keys]
        assert merged.table(part).sort_by(order).equals(whole.table(part).sort_by(order)), name


TALLY = PartialTable(
    "tally",
    keys=(("who", TEXT), ("step", INT64)),
    sums=("exchanges",),
    most=100,
    spare=(("who",),),
)


def test_bounds_keep_the_heaviest_and_every_sum():
    who = [f"client-{number}" for number in range(60) for _ in range(5)]
    weights = [1000 - number for number in range(60) for _ in range(5)]
    table = pa.table({"who": who, "step": list(range(5)) * 60, "exchanges": weights}, schema=TALLY.schema)
    kept = limit_rows(TALLY, table)
    assert kept.num_rows == 55
    assert sum(kept["exchanges"].to_pylist()) == sum(weights)
    assert set(kept["who"].to_pylist()) == {f"client-{number}" for number in range(10)} | {None}
    assert limit_rows(TALLY, kept).equals(kept)


def test_early_events_stay_and_late_ones_are_counted():
    part = PartialTable(
        "events", keys=(("time_ns", INT64), ("what", TEXT)), sums=("events",), most=10, earliest="time_ns"
    )
    table = pa.table(
        {"time_ns": list(range(50, 0, -1)), "what": ["x"] * 50, "events": [1] * 50}, schema=part.schema
    )
    kept = limit_rows(part, table).to_pylist()
    assert sorted(row["time_ns"] for row in kept if row["time_ns"] is not None) == [1, 2, 3, 4, 5]
    assert sum(row["events"] for row in kept) == 50


def runs(*ranges, producer=7):
    """Give SEQUENCES of one partition from (start, stop)."""
    rows = [
        {"producer_id": producer, "producer_epoch": 0, "topic": "orders", "topic_id": None, "partition": 0, "start": start,
         "batches": 1, "records": stop - start, "stop": stop, "order_ns": at, "capture_file": "a", "request_packet": at, "response_packet": None}
        for at, (start, stop) in enumerate(ranges, 1)
    ]  # fmt: skip
    return roll_up(SEQUENCES, pa.Table.from_pylist(rows, SEQUENCES.schema))


@pytest.mark.parametrize(
    ("ranges", "expected"),
    [
        ([(0, 5), (5, 9), (9, 20)], [(0, 20, 3)]),
        ([(9, 20), (0, 5), (5, 9)], [(0, 20, 3)]),  # out of order on the wire
        ([(0, 5), (7, 9)], [(0, 5, 1), (7, 9, 1)]),  # 5 and 6 never came
        ([(0, 5), (0, 5), (5, 6)], [(0, 6, 3)]),  # sent again
        ([(0, 10), (2, 4), (12, 13)], [(0, 10, 2), (12, 13, 1)]),
    ],
)
def test_runs_of_sequence_numbers(ranges, expected):
    joined = limit_rows(SEQUENCES, runs(*ranges))
    found = sorted((row["start"], row["stop"], row["batches"]) for row in joined.to_pylist())
    assert found == expected


def test_runs_of_producers_stay_apart():
    both = pa.concat_tables([runs((0, 5), producer=1), runs((5, 9), producer=2)])
    assert limit_rows(SEQUENCES, both).num_rows == 2


def test_positions_are_the_last_of_each_step():
    times = [1, 2, 3, 8]
    offsets = [10, 11, 5, 12]
    exchanges = synthetic.EXCHANGES.empty_table()
    rows = [
        {"connection": 1, "ordinal": at, "api_key": 8, "status": "answered", "group_id": "g", "client_id": "c", "idle_wait": False,
         "request_first_ns": SECONDS.start_ns + ms * 1_000_000, "response_first_ns": SECONDS.start_ns + ms * 1_000_000 + 1}
        for at, ms in enumerate(times)
    ]  # fmt: skip
    exchanges = pa.Table.from_pylist(rows, exchanges.schema)
    partitions = pa.Table.from_pylist(
        [{"connection": 1, "ordinal": at, "api_key": 8, "topic": "t", "partition": 0, "offset": offset, "error_code": 25 if at == 3 else 0} for at, offset in enumerate(offsets)],
        synthetic.PARTITIONS,
    )  # fmt: skip
    partial = summarise({"exchanges": exchanges, "partitions": partitions}, SECONDS)
    found = TableColumns(partial.table(POSITIONS)).table.to_pylist()
    # Four commits: three in the first step of 5 ms, of which the last counts, and one that was refused.
    assert [(row["step"], row["kind"], row["group_id"], row["offset"]) for row in found] == [
        (0, "committed", "g", 5)
    ]
