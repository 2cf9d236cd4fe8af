"""Paths by steps of time, and standstills: what is added up, and what stays when there is too much."""

import pyarrow as pa

from kdissect.report.aggregate.network_tables import PATHS, STANDSTILLS, count_network, tcp_step
from kdissect.report.partials import Partial, merge, summarise
from kdissect.tables.schemas import TCP_SPANS, TCP_STEPS

SECOND = 10**9
STEP = dict.fromkeys(TCP_STEPS.names, 0) | {
    "connection": 1, "client_host": "10.0.0.9", "server_host": "10.0.0.1", "server_port": 9092,
    "to_server": True, "begin_ns": 5 * SECOND, "first_ns": 5 * SECOND + 7, "last_ns": 5 * SECOND + 9,
    "segments": 3, "bytes": 300, "ack_count": 2, "ack_ns": 50, "ack_min_ns": 20, "ack_max_ns": 30,
    "reply_min_ns": None, "reply_max_ns": None, "repeated_first_ns": None, "repeated_last_ns": None,
}  # fmt: skip
SPAN = dict.fromkeys(TCP_SPANS.names, 0) | {
    "connection": 1, "client_host": "10.0.0.9", "server_host": "10.0.0.1", "server_port": 9092,
    "to_server": True, "begin_ns": 5 * SECOND, "kind": "unacknowledged", "outcome": "open",
    "end_ns": 9 * SECOND, "packets": 6, "capture_file": "a.pcap", "packet": 77,
}  # fmt: skip


def steps(*rows: dict) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([STEP | row for row in rows], schema=TCP_STEPS)


def test_connections_of_a_path_are_added_up() -> None:
    counted = count_network(
        {
            "tcp_steps": steps(
                {}, {"connection": 2, "ack_min_ns": 4, "last_ns": 6 * SECOND}, {"to_server": False}
            )
        }
    )
    assert list(counted) == [PATHS.name]
    there, back = sorted(counted[PATHS.name].to_pylist(), key=lambda row: not row["to_server"])
    assert (there["segments"], there["ack_min_ns"], there["last_ns"]) == (6, 4, 6 * SECOND)
    assert (there["first_ns"], there["last_ns"], there["reply_min_ns"]) == (5 * SECOND + 7, 6 * SECOND, None)
    assert (back["segments"], back["ack_max_ns"]) == (3, 30)


def test_parts_merge_to_the_same_in_any_order() -> None:
    rows = [{"connection": n, "begin_ns": (n % 3) * SECOND, "ack_min_ns": n + 1} for n in range(9)]
    parts = [summarise({"tcp_steps": steps(row)}) for row in rows]
    forwards, backwards = merge(parts), merge(parts[::-1])
    one = summarise({"tcp_steps": steps(*rows)})

    def seen(partial: Partial) -> list[dict]:
        return partial.table(PATHS).sort_by("begin_ns").to_pylist()

    assert seen(forwards) == seen(backwards) == seen(one)
    assert [row["segments"] for row in seen(one)] == [9, 9, 9]


def test_standstills_keep_their_columns() -> None:
    rows = pa.RecordBatch.from_pylist([SPAN], schema=TCP_SPANS)
    (row,) = count_network({"tcp_spans": rows})[STANDSTILLS.name].to_pylist()
    assert row == SPAN | {"spans": 1}


def test_the_earliest_of_too_many_standstills_stay() -> None:
    many = [SPAN | {"begin_ns": n * SECOND} for n in range(STANDSTILLS.most + 1)]
    counted = count_network({"tcp_spans": pa.RecordBatch.from_pylist(many, schema=TCP_SPANS)})
    rows = counted[STANDSTILLS.name]
    assert rows.num_rows <= STANDSTILLS.most
    assert sum(rows["spans"].to_pylist()) == len(many)


def test_steps_grow_with_the_capture() -> None:
    assert [tcp_step(seconds * SECOND) // SECOND for seconds in (0, 60, 3600, 3601, 86400)] == [
        1,
        1,
        1,
        2,
        24,
    ]
