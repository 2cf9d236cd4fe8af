"""The tables of a comparison, for text and page alike."""

from __future__ import annotations

from kdissect.replay.results.run_comparison import compare
from kdissect.replay.results.run_tables import (
    RunTable,
    error_table,
    lag_table,
    latency_table,
    offset_table,
    record_table,
    rewrite_table,
    skipped_table,
    start_spread,
    sum_of_requests,
)
from tests.helpers.run_pairs import error, late, pair, run

OFFSETS = {"rules": {"orders-0": {"produced": 2, "identity": 1000}}, "clamped": 0}
REPORT = compare(
    run(5, offsets=OFFSETS),
    [
        pair(0, rewrites=["Produce v7 as v9"]),
        error(1, 0, 10),
        late(2, 2, 5, 1),
        late(3, 3, 0, 2),
        pair(4, bucket="policy", reason="excluded by --topic", sent=None, answers=[]),
    ],
)


def rows(table: RunTable) -> list[dict[str, object]]:
    titles = [column.title for column in table.columns]
    return [dict(zip(titles, row, strict=True)) for row in table.rows]


def test_the_sum_is_written_out() -> None:
    assert sum_of_requests(REPORT["accounting"]) == "5 captured = 4 sent + 1 skipped"


def test_every_table_has_its_rows() -> None:
    assert rows(skipped_table(REPORT)) == [
        {"requests": 1, "skipped as": "policy", "reason": "excluded by --topic"}
    ]
    (found,) = rows(error_table(REPORT, REPORT["errors"]))
    assert (found["captured"], found["replayed"], found["what became of it"]) == (
        "NONE",
        "MESSAGE_TOO_LARGE",
        "new",
    )
    assert rows(record_table(REPORT)) == [
        {"topic": "orders", "on the target": "t-orders", "captured": 5, "replayed": 3}
    ]
    assert {row["cause"]: row["requests"] for row in rows(lag_table(REPORT))} == {"on time": 3, "self": 1}
    assert rows(offset_table(REPORT)) == [
        {"partition": "orders-0", "offsets translated by": "produced × 2, identity × 1,000"}
    ]
    assert rows(rewrite_table(REPORT)) == [{"requests": 1, "rewrite": "Produce v7 as v9"}]


def test_latencies_are_durations_and_empty_columns_are_left_out() -> None:
    table = latency_table(REPORT)
    titles = [column.title for column in table.columns]
    assert titles[:4] == ["API", "requests", "captured p50", "p99"]
    assert "throttled" not in titles
    assert table.rows[0][:4] == ("Produce v9", 4, "2.00ms", "2.00ms")
    assert table.rows[0][-1] == "1.50 (few)"


def test_a_comparison_of_nothing_has_empty_tables() -> None:
    empty = compare(run(0), [])
    assert latency_table(empty) == RunTable((), [])
    assert skipped_table(empty).rows == lag_table(empty).rows == rewrite_table(empty).rows == []


def test_the_start_of_a_lost_worker_is_unknown() -> None:
    first, second = {"start_ms": 1.0, "clock_offset_ms": 0.5}, {"start_ms": 3.0, "clock_offset_ms": -0.7}
    apart = "clocks differ from the driver's by 700µs at most"
    assert start_spread([first, second]) == f"start spread 2.00ms; {apart}"
    assert start_spread([first, second | {"start_ms": None}]) == f"start spread unknown; {apart}"
