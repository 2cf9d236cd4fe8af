"""`replay.results.run_reads`: reads that fell short, reads of more than was captured, commits."""

from __future__ import annotations

from typing import Any

from kdissect.replay.results.run_comparison import compare
from tests.helpers.run_pairs import pair, run


def fetched(index: int, captured: int, replayed: int, written: int) -> dict[str, Any]:
    made = pair(index, api="Fetch", api_key=1, produced=[])
    entry = {"where": "orders-0", "error": 0, "records": captured, "written": written}
    made["captured"] = made["captured"] | {"produced": {}, "digest": [entry]}
    answer = {"where": "t-orders-0", "error": 0, "records": replayed}
    return made | {"answers": [{"version": 12, "bytes": 9, "body": None, "digest": [answer]}]}


def test_reads_that_fall_short_of_what_the_capture_wrote_are_a_divergence() -> None:
    report = compare(run(2), [fetched(0, 60, 60, 60), fetched(1, 40, 20, 40)])
    assert report["because"] == ["fetches brought fewer records: 80 of 100 of orders"]
    older = compare(run(2), [fetched(0, 60, 60, 60), fetched(1, 40, 20, 0)])
    assert older["because"] == []


def test_more_reads_are_named_with_their_reason() -> None:
    report = compare(run(2), [fetched(0, 0, 30, 0), fetched(1, 100, 120, 100)])
    assert report["verdict"] == "pass"
    assert report["records"]["amplification"]["times"] == 1.5
    assert [each["records"] for each in report["records"]["amplification"]["reasons"]] == [30, 20]
    assert compare(run(1), [fetched(0, 100, 105, 100)])["records"]["amplification"] is None


def test_commits_that_fall_short_are_named() -> None:
    commit = {
        "group": "audit",
        "partition": "orders-0",
        "captured": 9,
        "expected": 9,
        "replayed": 4,
        "short": 5,
    }
    report = compare(run(1, commits=[commit, commit | {"short": 0}]), [pair(0)])
    assert report["verdict"] == "diverged"
    assert report["because"] == ["commits fall short: group audit, orders-0: 4 instead of 9, 5 records"]
    nothing = commit | {"replayed": None}
    (line,) = compare(run(1, commits=[nothing]), [pair(0)])["because"]
    assert line == "commits fall short: group audit, orders-0: no commit instead of 9, 5 records"
