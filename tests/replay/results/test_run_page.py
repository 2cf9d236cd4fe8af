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
