"""Gaps and uncertainties, and the meaning of the marks."""

from dataclasses import replace

from kdissect.report.build.build_report import build_report
from kdissect.report.partials import summarise
from kdissect.report.render.quality import legend, quality
from kdissect.report.render.report_text import render
from kdissect.report.render.terminal import Terminal
from tests.helpers import paper_capture
from tests.helpers.report_rows import PRODUCE, many, report


def test_a_sound_capture_has_no_doubts():
    tables = dict(paper_capture.tables())
    tables = {
        name: table.slice(0, 1) if name in ("connections", "exchanges") else table
        for name, table in tables.items()
    }
    text = render(build_report(summarise(tables), paper_capture.CAPTURE), Terminal(100))
    assert "✓ nothing lost" in text
    assert "Capture quality" not in text


def test_each_counter_has_its_amount_share_and_meaning(summary):
    lines = quality(summary, Terminal(120))
    assert "Capture quality" in lines[0]
    assert lines[1].split()[:3] == ["500", "B", "5.0%"]
    assert sum(any(line.endswith(doubt.means) for line in lines) for doubt in summary.doubts) >= 4
    assert len([line for line in lines if line.startswith("     ")]) >= len(summary.doubts)


def test_warnings_are_folded_and_stay_text(summary):
    warned = replace(summary, capture=replace(summary.capture, warnings=("cut \x1b[2J " + "word " * 40,)))
    lines = quality(warned, Terminal(70))
    assert any(line.startswith(" ! cut \\x1b[2J") for line in lines)
    assert max(map(len, lines)) <= 70


def test_only_marks_that_the_tables_have_are_explained(summary):
    assert len(legend(summary, Terminal(120))) == 2
    sound = report(many(1500, PRODUCE, 1))
    assert legend(sound, Terminal(120)) == []
    (hint,) = legend(sound, Terminal(120, full=False))
    assert "--full" in hint
