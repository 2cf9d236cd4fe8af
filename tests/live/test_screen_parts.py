"""Parts of the screen: bars, lines that fit, tables."""

from io import StringIO

import pytest
from rich.console import Console

from kdissect.live.recent_calls import BEYOND_NS, CallRow
from kdissect.live.screen_parts import call_table, course, line, p99_sentence, packed, two_lines
from kdissect.text import display_width


def test_a_course_has_the_last_values() -> None:
    assert course([9, 0, 1, 7], 3) == "▁▂█"
    assert course([0, 0], 5) == "▁▁"
    assert course([], 5) == ""


def test_figures_are_packed_into_lines() -> None:
    assert packed(["12:00:05", "3 files", "7 errors"], 20) == ["12:00:05  3 files", "7 errors"]


def test_a_line_is_cut_to_its_width() -> None:
    assert line("client", 10).plain == "client"
    assert line("a long client", 8).plain == "a lon…nt"


def test_a_wide_sentence_is_broken_at_blanks() -> None:
    sentence = "注文クライアント at 10.1.0.2 sent nothing to broker 2 for seven seconds"
    texts = [shown.plain for shown in two_lines(sentence, 30)]
    assert texts == ["注文クライアント at 10.1.0.2", "sent nothing to broker 2 for…"]
    assert [shown.plain for shown in two_lines("all of it", 30)] == ["all of it"]


def shown_table(width: int, sort: str) -> list[str]:
    """Return a table of connections as it is shown at a width."""
    names = ("app 10.1.0.2:49151 → 10.1.0.9:9092", "注文クライアント注文クライアント")
    rows = [CallRow(name, 1234.5, 10**6, 10**7, 3, 1, 123456) for name in names]
    out = StringIO()
    Console(file=out, width=width).print(call_table(rows, "connection", sort, width))
    return out.getvalue().splitlines()


@pytest.mark.parametrize("width", [30, 40, 66, 80, 300])
@pytest.mark.parametrize("sort", ["per_second", "bytes"])
def test_names_and_the_sorted_column_stay_on_a_narrow_terminal(width: int, sort: str) -> None:
    head, *rows = shown_table(width, sort)
    assert head.startswith("connection")
    assert "▼" in head
    assert [row[0] for row in rows] == ["a", "注"]
    assert rows[0].split("  ")[0].endswith("9092")  # names of connections differ in their last part
    assert all(display_width(row) == width for row in rows)


def test_a_wide_terminal_has_all_figures() -> None:
    assert shown_table(120, "errors")[0].split() == (
        ["connection", "per", "second", "p50", "p99", "errors▼", "unanswered", "bytes"]
    )


def test_a_quantile_beyond_the_highest_bound_is_no_upper_bound() -> None:
    table = call_table([CallRow("orders", 1.5, 5 * 10**9, BEYOND_NS, 0, None, 10)], "topic", "bytes", 80)
    assert [str(next(iter(column.cells))) for column in table.columns][2:4] == ["≤5.00s", ">5.00s"]
    assert p99_sentence(5 * 10**9) == "99 of 100 took 5.00s or less"
    assert p99_sentence(BEYOND_NS) == "more than 1 of 100 took longer than 5.00s"


def test_a_figure_that_is_not_known_is_a_dash() -> None:
    table = call_table([CallRow("orders", 1.5, None, 10**6, 0, None, 10)], "topic", "bytes", 80)
    cells = [str(next(iter(column.cells))) for column in table.columns]
    assert cells == ["orders", "1.5", "-", "≤1.00ms", "0", "-", "10 B"]
