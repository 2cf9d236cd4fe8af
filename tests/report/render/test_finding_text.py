"""Findings as text: lines fit, hostile names stay text."""

from dataclasses import replace

import pytest

from kdissect.report.render.finding_text import findings as lines
from kdissect.report.render.report_text import incidents
from kdissect.report.render.terminal import Terminal
from kdissect.text import (
    display_width,
)
from tests.helpers import recorded
from tests.helpers.report_rows import HEARTBEAT, failing, report


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("unicode", [False, True])
def test_lines_fit_and_hostile_names_stay_text(width, unicode):
    rows = failing(1, HEARTBEAT, 25, [0], group_id="\x1b]0;x\x07" + "y" * 300, client_id="文字" * 80)
    shown = lines(report(rows), Terminal(width, unicode=unicode))
    assert max(map(display_width, shown)) <= width
    assert "\x1b" not in "".join(shown)
    assert unicode or "".join(shown).isascii()


@pytest.mark.parametrize("width", [60, 80, 120])
def test_wide_characters_in_a_sentence_fit_and_names_keep_their_hyphens(width):
    summary = report(failing(1, HEARTBEAT, 25, [0]))
    (finding, *_) = summary.findings
    name = "orders-app-1"
    evidence = replace(finding.evidence[0], detail=f"{'文字' * 60} at {name} " * 4)
    wide = replace(finding, title=f"{'文 ' * 90}{name}", evidence=(evidence,))
    shown = lines(replace(summary, findings=(wide,)), Terminal(width))
    assert max(map(display_width, shown)) <= width
    assert "\n".join(shown).count(name) == 5


@pytest.mark.parametrize("width", [60, 80, 120])
def test_incidents_of_wide_names_fit(width):
    summary, _, _ = recorded.analyzed("broker-restart.pcapng")
    wide = replace(summary.incidents[0], headline=f"{'文 ' * 90}died", consequences=("文字" * 70,))
    shown = incidents(replace(summary, incidents=(wide,)), Terminal(width))
    assert max(map(display_width, shown)) <= width
