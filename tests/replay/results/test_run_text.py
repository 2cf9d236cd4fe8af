"""Plans and comparisons as text."""

from __future__ import annotations

from typing import Any

from kdissect.replay.results.run_comparison import compare
from kdissect.replay.results.run_page import page
from kdissect.replay.results.run_text import comparison_text, names_left, plan_text
from tests.helpers.run_pairs import error, pair, run

LARGEST: dict[str, Any] = {
    "share": 0.6,
    "requests": 600,
    "bytes": 2048,
    "connections": 2,
    "ties": [{"kind": "group", "name": "g", "connections": 2}],
}
PLAN: dict[str, Any] = {
    "capture": {
        "files": ["a.pcap"],
        "requests": 1200,
        "connections": 3,
        "headless_connections": 1,
        "client_hosts": 2,
        "cluster_ids": [],
    },
    "target": {"cluster_id": "b", "nodes": {"1": "127.0.0.1:9092"}},
    "accounting": {"captured": 1200, "sent": 1000, "skipped": 200},
    "apis": {"Produce": {"captured": 1200, "sent": 1000, "skipped": 200}},
    "skipped": [{"api": "Produce", "bucket": "policy", "reason": "excluded by --topic", "requests": 200}],
    "conversions": [{"api": "Produce", "captured": 7, "sent": 9, "requests": 10}],
    "losses": {"Produce v12 as v9, without x": 2},
    "names": {"groups": {"g": "replay-g"}, "transactional_ids": {}, "topic_ids": {}},
    "topics": [{"topic": "orders", "target": "replay-orders", "partitions": 6, "differences": ["missing"]}],
    "timers": [],
    "load": {
        "duration_s": 90.0,
        "peak_requests_per_s": 100,
        "peak_bytes_per_s": 2048,
        "bytes": 4096,
        "connections": 3,
        "processes": [600, 400],
        "components": {"count": 2, "largest": LARGEST},
    },
    "records": 5000,
    "record_bytes": 1 << 20,
    "retries": 0,
    "settings": {"pace": "schedule", "speed": 1.0},
    "warnings": ["consumer groups are not replayed"],
}


def test_a_plan_has_its_sections_and_no_empty_ones() -> None:
    lines = list(plan_text(PLAN))
    text = "\n".join(lines)
    assert "Would send 1,000, skip 200, of 1,200 captured." in lines
    assert "  instead of a cluster of unknown id" in lines
    assert "90.0s at pace schedule" in text
    assert "2.00 KiB in a second; 4.00 KiB on 3 connections" in text
    assert "by 2 processes, the busiest with 600 requests" in text
    for section in ("Skipped, and why", "Other versions", "Lost in conversion", "Topics", "Warnings"):
        assert section in lines
    assert "Timers" not in lines
    assert " g → replay-g" in lines


def test_plan_and_report_tell_what_shapes_the_time() -> None:
    more = {"ramp_s": 20.0, "max_gap_s": 2.0}
    text = "\n".join(plan_text(PLAN | {"settings": PLAN["settings"] | more}))
    assert "90.0s at pace schedule, speed 1, ramp 20.0s, pauses of at most 2.00s; at most 100" in text
    made = run(1)
    made["plan"]["settings"] |= more
    report = compare(made, [pair(0)])
    told = "  pace schedule, speed 1, ramp 20.0s, pauses of at most 2.00s, groups off, offsets auto"
    assert told in list(comparison_text(report))
    assert "<span>ramp 20.0s</span><span>pauses of at most 2.00s</span>" in page(report)


def test_a_plan_tells_no_rate_where_the_target_decides_it() -> None:
    text = "\n".join(plan_text(PLAN | {"settings": PLAN["settings"] | {"pace": "asap"}}))
    assert "  as fast as the target answers, at pace asap; 4.00 KiB on 3 connections" in text
    assert "in a second" not in text


def test_a_run_without_prefix_leaves_captured_names() -> None:
    assert names_left("try-1-") == "names on the target begin with try-1-, and stay there after the run"
    assert names_left("") == "names on the target are the captured ones, and stay there after the run"


def test_a_comparison_begins_with_its_verdict() -> None:
    lines = list(comparison_text(compare(run(3), [pair(0), error(1, 0, 10), error(2, 0, 6)])))
    assert lines[0] == "Correctness: DIVERGED. The target answered differently from the captured cluster."
    assert "3 captured = 3 sent + 0 skipped" in lines
    assert "  skipped = 0" in lines
    assert "  sent beside these, for the replayer itself: nothing" in lines
    assert any(line.startswith(" FAIL what was acknowledged is acknowledged: ") for line in lines)
    assert "Skipped, and why" not in lines
    table = lines.index("Errors, captured against replayed")
    assert lines[table + 1].split()[:2] == ["requests", "API"]
    assert lines[table + 4].startswith("  of the cluster: ")


def test_a_plan_names_what_keeps_most_of_the_load_together() -> None:
    (line,) = [line for line in plan_text(PLAN) if "stays on one process" in line]
    assert "60.0% of the load" in line
    assert "2 connections share group g (2). Any number of processes sends at most 1.7 times as fast" in line
    load = PLAN["load"] | {"components": {"count": 2, "largest": LARGEST | {"share": 0.5}}}
    assert not [line for line in plan_text(PLAN | {"load": load}) if "stays on one process" in line]
