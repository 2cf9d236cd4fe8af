"""Tables of errors, unanswered requests, throttling and faults, on the capture worked out on paper."""

from dataclasses import replace

import pytest

from kdissect.report.render.error_tables import (
    LOCATION_COLUMNS,
    errors,
    faults,
    location_cells,
    throttling,
    unanswered,
)
from kdissect.report.render.terminal import Terminal
from tests.helpers.report_rows import PRODUCE, exchange_of, many, report

SECTIONS = (errors, unanswered, throttling, faults)
WIDE = Terminal(200)


def row_of(section, summary, terminal=WIDE):
    """Return the words of the last row of a section."""
    (row,) = section(summary, terminal)[-1:]
    return row.split()


def test_a_quiet_report_has_none_of_the_sections():
    quiet = report(many(3, PRODUCE, 1))
    assert [section(quiet, WIDE) for section in SECTIONS] == [[], [], [], []]


def test_an_error_has_its_first_response(summary):
    row = row_of(errors, summary)
    assert row[:4] == ["NOT_LEADER_OR_FOLLOWER", "Produce", "1", "1"]
    assert {"#13", "orders-0", "orders-app", "10.1.0.1:40001", "10.0.0.1:9092"} <= set(row)


def test_a_request_without_a_response_has_its_own_packet(summary):
    row = row_of(unanswered, summary)
    assert row[:6] == ["Produce", "v9", "1", "1", "-", "-"]
    assert "#18" in row


def test_throttling_names_the_client_and_how_long(summary):
    assert row_of(throttling, summary) == ["orders-app", "10.1.0.1", "1", "200ms", "200ms"]


def test_a_fault_is_shown_by_an_example(summary):
    row = " ".join(row_of(faults, summary))
    assert row.startswith("Fetch v13 1 response.responses[3].partitions: length 70000 of 12 left (offset 41)")
    assert row.endswith("#25")


def test_the_file_is_named_only_where_there_are_several(summary):
    both = replace(summary, capture=replace(summary.capture, files=("shop.pcapng", "b.pcap")))
    assert "shop.pcapng" not in row_of(errors, summary)
    assert "shop.pcapng" in row_of(errors, both)


def test_without_a_location_there_are_dashes():
    assert [cell.text for cell in location_cells(None, WIDE)] == ["-"] * len(LOCATION_COLUMNS)


def test_rows_beyond_the_limit_are_counted():
    calls = [exchange_of(1, at, PRODUCE, at, error_code=code) for at, code in enumerate(range(20, 40))]
    lines = errors(report(calls), WIDE)
    assert "10 more errors" in lines[-1]
    assert len(errors(report(calls), Terminal(200, whole=True))) == len(lines) + 9


@pytest.mark.parametrize("section", SECTIONS)
def test_lines_fit_a_narrow_terminal(summary, section):
    lines = section(summary, Terminal(60))
    assert lines
    assert max(map(len, lines)) <= 60
