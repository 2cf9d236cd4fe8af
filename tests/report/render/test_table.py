"""Text tables: alignment, and what gives way when the terminal is narrow."""

import pytest

from kdissect.report.render.table import (
    TableCell,
    TableColumn,
    aligned,
    heading,
    omitted_lines,
    phrase_lines,
    table_lines,
)
from kdissect.report.render.terminal import Terminal
from kdissect.text import display_width

TABLE = (
    TableColumn("name", right=False, shortest=6),
    TableColumn("calls"),
    TableColumn("spare", drop=2),
    TableColumn("first", drop=1),
)
ROWS = [[TableCell("a-rather-long-name"), TableCell("1,000"), TableCell("x"), TableCell("y")]]


def test_cells_stand_below_each_other():
    assert aligned([["a", "1"], ["bcd", "20"]], right=(False, True)) == ["a     1", "bcd  20"]
    assert aligned([["a", "b"], ["文字", ""]], gap=1, indent=2) == ["  a    b", "  文字"]


def test_a_wide_terminal_shows_everything():
    assert table_lines(TABLE, ROWS, Terminal(60)) == [
        " name               calls spare first",
        " a-rather-long-name 1,000     x     y",
    ]


def test_names_are_cut_before_columns_go_and_the_highest_drop_goes_first():
    assert table_lines(TABLE, ROWS, Terminal(32)) == [
        " name          calls spare first",
        " a-rather…name 1,000     x     y",
    ]
    titles, _ = table_lines(TABLE, ROWS, Terminal(20))
    assert "spare" not in titles
    assert "first" in titles


@pytest.mark.parametrize("width", range(8, 60, 3))
def test_lines_fit(width):
    assert all(display_width(line) <= max(width, 12) for line in table_lines(TABLE, ROWS, Terminal(width)))


def test_a_column_of_nothing_goes_if_it_may():
    rows = [[TableCell("a"), TableCell("-"), TableCell("-"), TableCell("")]]
    assert table_lines(TABLE, rows, Terminal(60))[0] == " name calls"


def test_a_table_without_rows_has_titles():
    assert table_lines(TABLE[:2], [], Terminal(60)) == [" name calls"]


def test_a_heading_is_as_wide_as_the_terminal():
    line = heading("Errors", "a note", Terminal(40))
    assert line.startswith("Errors  a note ─")
    assert display_width(line) <= 40
    assert heading("E", "x" * 100, Terminal(30, unicode=False)).isascii()


def test_omitted_rows_are_counted():
    assert omitted_lines(12, 10, "error", Terminal()) == [" … and 2 more errors"]
    assert omitted_lines(11, 10, "API version", Terminal()) == [" … and 1 more API version"]
    assert omitted_lines(11, 10, "", Terminal()) == [" … and 1 more"]
    assert omitted_lines(10, 10, "error", Terminal()) == []
    assert omitted_lines(12, 10, "error", Terminal(whole=True)) == []


def test_phrases_break_between_each_other():
    lines = phrase_lines("Label", [TableCell("one"), TableCell("two"), TableCell("three")], Terminal(26))
    assert lines == [" Label       one · two", "             three"]
