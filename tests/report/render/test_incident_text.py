"""Incidents on the terminal: a headline, its consequences, and the reasons in full."""

from kdissect.report.render.incident_text import incidents
from kdissect.report.render.report_text import render
from kdissect.report.render.terminal import Terminal
from tests.helpers import recorded


def test_the_headline_is_the_first_line_after_the_header():
    summary = recorded.analyzed("pause.pcapng")[0]
    lines = incidents(summary, Terminal(200, full=False))
    assert lines[1].startswith(" critical Broker 2 (127.0.0.1:29486) froze at 05:33:13.")
    assert "3 clients affected" in lines[2]
    text = render(summary, Terminal(120, full=False))
    assert text.index("Incidents") < text.index("Profile")


def test_reasons_are_shown_in_full_only():
    summary = recorded.analyzed("pause.pcapng")[0]
    assert any("look at:" in line for line in incidents(summary, Terminal(200, full=True)))
    assert not any("look at:" in line for line in incidents(summary, Terminal(200, full=False)))


def test_every_line_fits():
    for width in (60, 80, 200):
        for full in (True, False):
            lines = incidents(recorded.analyzed("broker-restart.pcapng")[0], Terminal(width, full=full))
            assert max(map(len, lines)) <= width


def test_nothing_is_shown_where_nothing_went_wrong():
    assert incidents(recorded.analyzed("tls.pcapng")[0], Terminal(100)) == []
