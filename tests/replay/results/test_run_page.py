"""The page of a comparison, and what of a capture may reach it."""

from __future__ import annotations

from kdissect.replay.results.run_comparison import compare
from kdissect.replay.results.run_page import page
from kdissect.replay.results.run_text import comparison_text
from tests.helpers.run_pairs import error, pair, run


def test_nothing_from_outside_reaches_terminal_or_page_raw() -> None:
    evil = "\x1b[31m<script>alert(1)</script>\u202e"
    bad = error(0, 0, 10)
    bad["answers"][0]["digest"][0]["where"] = evil
    skipped = pair(1, bucket="policy", reason=evil, sent=None, answers=[])
    report = compare(run(2, id=evil), [bad, skipped])
    for text in ("\n".join(comparison_text(report)), page(report)):
        assert "\x1b" not in text
        assert "\u202e" not in text
    assert "<script>" not in page(report)


def test_workers_of_several_machines_are_shown_with_what_they_did() -> None:
    facts = {"process": 1, "bytes": 5_000_000, "connections": 3, "clock_error_ms": 0.01, "drift_ms": 0.0}
    workers = [
        {"number": 0, "host": "a<b", "requests": 12_345, "ended": 12_345, "lost": ""}
        | {"clock_offset_ms": 0.02, "start_ms": 0.0}
        | facts,
        {"number": 1, "host": "c", "requests": 11, "ended": 10, "lost": "worker 1 on c is gone"}
        | {"clock_offset_ms": -0.5, "start_ms": None}
        | facts,
    ]
    report = compare(run(1, workers=workers), [pair(0)])
    shown = page(report)
    assert "<h2>Workers</h2>" in shown
    assert "clocks differ from the driver&#x27;s by 500µs at most" in shown or "500µs at most" in shown
    for text in ("a&lt;b", "12,345", "5,000,000", "worker 1 on c is gone"):
        assert text in shown
    assert "<h2>Workers</h2>" not in page(compare(run(1), [pair(0)]))
