"""What is missing or uncertain, and the meaning of the marks."""

from kdissect.report.build.report import build_report
from kdissect.report.partials import summarise
from kdissect.report.render.report_text import render
from kdissect.report.render.terminal import Terminal
from tests.helpers import paper_capture


def test_a_sound_capture_has_no_doubts():
    tables = dict(paper_capture.tables())
    tables = {
        name: table.slice(0, 1) if name in ("connections", "exchanges") else table
        for name, table in tables.items()
    }
    text = render(build_report(summarise(tables), paper_capture.CAPTURE), Terminal(100))
    assert "✓ nothing lost" in text
    assert "Capture quality" not in text
