"""A comparison as text: lines fit."""

import numpy as np
import pytest

from kdissect.report.build.compare import compare
from kdissect.report.render.comparison_text import render
from kdissect.report.render.terminal import Terminal
from kdissect.text import display_width
from tests.helpers.report_rows import json_report

RNG = np.random.default_rng(3)


FAST = RNG.exponential(1000, 500)


@pytest.mark.parametrize("width", [80, 120, 200])
def test_lines_fit(width):
    text = render(compare(json_report(FAST), json_report(FAST * 3, errors=9)), Terminal(width))
    assert max(map(display_width, text.splitlines())) <= width
    assert "slower p50 p90 p99" in text
    assert "\x1b" not in text


def test_the_largest_change_is_named_first():
    before, after = (
        json_report([2000.0] * 190 + [744_000.0] * 10),
        json_report([1000.0] * 190 + [13_200_000.0] * 10),
    )
    lines = render(compare(before, after), Terminal(160, full=False)).splitlines()
    (line,) = [line for line in lines if "Produce" in line and "likely slower" in line]
    assert line.index("likely slower p99 (×17.7)") < line.index("faster p50")


@pytest.mark.parametrize("width", [80, 160])
def test_rows_of_one_topic_name_their_api(width):
    some = json_report(FAST)
    (row,) = some["profile"]["rows"]
    rows = [row | {"label": "orders", "detail": api} for api in ("Produce", "Fetch")]
    topics = some | {"profile": some["profile"] | {"by": "topic", "rows": rows}}
    lines = [
        line for line in render(compare(topics, topics), Terminal(width)).splitlines() if "orders" in line
    ]
    assert ["Produce" in lines[0], "Fetch" in lines[1], len(lines)] == [True, True, 2]
    assert max(map(display_width, lines)) <= width


def test_one_row_has_too_few_values_and_two_have():
    some = json_report(FAST[:3])
    (row,) = some["profile"]["rows"]
    for labels, words in (("a", "1 row has too few values"), ("ab", "2 rows have too few values")):
        rows = [row | {"label": label} for label in labels]
        few = some | {"profile": some["profile"] | {"rows": rows}}
        assert words in render(compare(few, few), Terminal(120))
