"""Cells that tables share: latencies, counts, names, histograms."""

from dataclasses import replace

import numpy as np
import pytest

from kdissect.report.model.call_figures import HISTOGRAM_EDGES_NS
from kdissect.report.model.summary import ClientName
from kdissect.report.query.figures import exact_latencies
from kdissect.report.render.cells import (
    address_text,
    api_text,
    client_text,
    count_cell,
    decades,
    duration_cell,
    histogram_cell,
    latency_cells,
    name_cell,
    share_cell,
    software_cell,
)
from kdissect.report.render.terminal import DIM, YELLOW, Terminal

TERMINAL = Terminal()


def latency(*values):
    return exact_latencies(np.array(values, np.int64)).of(0)


def test_a_tilde_marks_a_percentile_of_too_few_values():
    texts = [cell.text for cell in latency_cells(latency(*[1_000_000] * 10), TERMINAL)]
    assert texts == ["1.00ms", "1.00ms", "1.00ms", "~1.00ms", "~1.00ms", "1.00ms"]
    assert [cell.text for cell in latency_cells(None, TERMINAL)] == ["-"] * 6


def test_durations_of_a_second_are_yellow():
    assert duration_cell(10**9, TERMINAL).style == YELLOW
    assert duration_cell(None, TERMINAL) == ("-", DIM)


def test_nothing_is_a_dim_dash():
    assert count_cell(0) == ("-", DIM)
    assert count_cell(1234).text == "1,234"
    assert share_cell(0.5) == ("50.0%", "")
    assert share_cell(0.001).style == DIM


def test_names():
    assert name_cell("a", 0).text == "a"
    assert name_cell("a", 3).text == "a?"
    name = ClientName(
        client_id=None, client_software_name="x\x1b", client_software_version="1", client_host=None
    )
    assert client_text(name, TERMINAL) == "(no client id)"
    assert "\x1b" not in software_cell(name, TERMINAL).text
    assert software_cell(replace(name, client_software_name=None), TERMINAL).text == "-"


@pytest.mark.parametrize(
    ("name", "version", "key", "text"),
    [
        ("Produce", 9, 0, "Produce v9"),
        ("Produce", None, 0, "Produce"),
        (None, 1, 999, "API 999 v1"),
        (None, None, None, "(no request)"),
    ],
)
def test_an_api_is_known_by_name_or_key(name, version, key, text):
    assert api_text(name, version, key, TERMINAL) == text


def test_addresses_of_ipv6_have_brackets():
    assert address_text("::1", 9092, TERMINAL) == "[::1]:9092"
    assert address_text("10.0.0.1", 9092, TERMINAL) == "10.0.0.1:9092"


def test_a_histogram_has_a_bar_for_each_decade_or_step():
    one = latency(20_000, 20_000_000)
    assert len(histogram_cell(one, Terminal(100)).text) == len(decades(one.histogram)) == 9
    assert len(histogram_cell(one, Terminal(200)).text) == len(HISTOGRAM_EDGES_NS) + 1
    assert histogram_cell(one, Terminal(100, unicode=False)).text.isascii()
    assert sum(decades(one.histogram)) == 2
