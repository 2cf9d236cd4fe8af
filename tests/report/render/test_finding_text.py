"""Findings as text: lines fit, hostile names stay text."""

import pytest

from kdissect.report.render.finding_text import findings as lines
from kdissect.report.render.terminal import Terminal
from kdissect.text import (
    display_width,
)
from tests.helpers.report_rows import HEARTBEAT, failing, report


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("unicode", [False, True])
def test_lines_fit_and_hostile_names_stay_text(width, unicode):
    rows = failing(1, HEARTBEAT, 25, [0], group_id="\x1b]0;x\x07" + "y" * 300, client_id="文字" * 80)
    shown = lines(report(rows), Terminal(width, unicode=unicode))
    assert max(map(display_width, shown)) <= width
    assert "\x1b" not in "".join(shown)
    assert unicode or "".join(shown).isascii()
