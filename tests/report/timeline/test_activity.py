"""Counts of exchanges by step of time, errors and events, against the rows."""

from collections import defaultdict

from kdissect.report.timeline.timeline_tables import (
    ACTIVITY,
    FAILURES,
)
from tests.report import plain_report as oracle

WHO = ("client_id", "client_host", "server_host", "server_port", "connection")


def test_moments(counted):
    _, partial, rows = counted
    expected = defaultdict(lambda: defaultdict(int))
    for row in rows:
        sums = expected[tuple(row[name] for name in ("step", "api_key", *WHO)), bool(row["idle_wait"])]
        sound = oracle.sound(row)
        sums["exchanges"] += 1
        sums["timed"] += sound
        sums["latency_ns"] += oracle.counted_ns(row) if sound else 0
        sums["latency_max_ns"] = max(sums["latency_max_ns"], oracle.counted_ns(row) if sound else 0)
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
    codes |= {
        ((row["connection"], row["ordinal"]), row["error_code"])
        for row in tables["partitions"].to_pylist()
        if row["error_code"]
    }
    expected = defaultdict(int)
    for place, code in codes:
        expected[exchange[place]["step"], exchange[place]["api_key"], code] += 1
    found = defaultdict(int)
    for row in partial.table(FAILURES).to_pylist():
        found[row["step"], row["api_key"], row["code"]] += row["exchanges"]
    assert found == expected
