"""Parts of the screen: bars, lines that fit, tables."""

from kdissect.live.recent_calls import CallRow
from kdissect.live.screen_parts import call_table, course, line, packed


def test_a_course_has_the_last_values() -> None:
    assert course([9, 0, 1, 7], 3) == "▁▂█"
    assert course([0, 0], 5) == "▁▁"
    assert course([], 5) == ""


def test_figures_are_packed_into_lines() -> None:
    assert packed(["12:00:05", "3 files", "7 errors"], 20) == ["12:00:05  3 files", "7 errors"]


def test_a_line_is_cut_to_its_width() -> None:
    assert line("client", 10).plain == "client"
    assert line("a long client", 8).plain == "a lon…nt"


def test_a_figure_that_is_not_known_is_a_dash() -> None:
    table = call_table([CallRow("orders", 1.5, None, 10**6, 0, None, 10)], "topic", "bytes", 80)
    cells = [str(next(iter(column.cells))) for column in table.columns]
    assert cells == ["orders", "1.5", "-", "≤1.00ms", "0", "-", "10 B"]
