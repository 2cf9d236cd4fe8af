"""The first lines of a report, and the sentence of one with nothing in it."""

from dataclasses import replace

import pyarrow as pa
import pytest

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.error_codes import ErrorCode
from kdissect.report.build.build_report import build_report
from kdissect.report.model.summary import AppliedFilter, CaptureFacts
from kdissect.report.partials import summarise
from kdissect.report.render.header import header
from kdissect.report.render.report_text import render
from kdissect.report.render.terminal import Terminal
from kdissect.tables.schemas import CONNECTIONS, EXCHANGES
from tests.helpers import paper_capture


def connections_only(protocol):
    return {
        "connections": paper_capture.tables()["connections"]
        .slice(0, 1)
        .set_column(9, "protocol", pa.array([protocol]))
    }


def with_errors(summary, errors, responses):
    """Return a report with these rows of errors, and so many responses with an error by API."""
    apis = tuple(
        replace(
            summary.apis[0],
            api_key=int(api),
            figures=replace(summary.apis[0].figures, error_responses=count),
        )
        for api, count in responses.items()
    )
    return replace(summary, errors=errors, apis=apis)


@pytest.mark.parametrize(
    ("tables", "packets", "words"),
    [
        ({}, 0, "No packets in this capture."),
        ({}, 7, "No TCP connection with payload in this capture."),
        (connections_only("unknown"), 7, "No Kafka requests or responses in this capture."),
        (
            connections_only("tls"),
            7,
            "No readable Kafka traffic: all connections are encrypted (TLS) or not Kafka.",
        ),
        (connections_only("kafka-0.7"), 7, "No Kafka requests or responses in this capture."),
        (connections_only("kafka"), 7, "No Kafka requests or responses in this capture."),
    ],
)
def test_empty_captures_are_told_in_plain_words(tables, packets, words):
    assert CONNECTIONS.names[9] == "protocol"
    text = render(build_report(summarise(tables), CaptureFacts(packets=packets)), Terminal(80))
    assert words in text
    assert "Profile" not in text


def test_nothing_answered():
    tables = dict(paper_capture.tables())
    tables["exchanges"] = tables["exchanges"].slice(4, 1)
    text = render(build_report(summarise(tables), paper_capture.CAPTURE), Terminal(120))
    assert "no responses: no latencies" in text
    assert "no exchanges with a response" in text


@pytest.mark.parametrize(("hours", "shown"), [(0.001, "/s"), (24, " · <1/s · ")])
def test_few_exchanges_in_a_long_time_are_no_rate_of_zero(hours, shown):
    summary = build_report(summarise(paper_capture.tables()), paper_capture.CAPTURE)
    last_ns = summary.totals.first_time_ns + round(hours * 3600 * 10**9)
    text = render(replace(summary, totals=replace(summary.totals, last_time_ns=last_ns)), Terminal(120))
    assert shown in text
    assert " 0/s" not in text


def test_times_have_their_date_when_the_capture_goes_on_past_midnight():
    day = 24 * 3600 * 10**9
    partial = summarise(paper_capture.tables())
    spans = {
        "1970-01-06 00:00:00.000 → 23:59:59.999 UTC": (5 * day, 6 * day - 1),
        "1970-01-06 00:00:00.000 → 1970-01-07 00:00:00.000 UTC": (5 * day, 6 * day),
    }
    for shown, (first, last) in spans.items():
        capture = replace(paper_capture.CAPTURE, first_time_ns=first, last_time_ns=last)
        assert shown in render(build_report(partial, capture), Terminal(120))


def test_long_lists_of_files_and_software_are_cut(summary):
    many = replace(summary, capture=replace(summary.capture, files=tuple(f"{at}.pcap" for at in range(9))))
    (line,) = [line for line in header(many, Terminal(200)) if line.startswith(" Capture")]
    assert "0.pcap, 1.pcap, 2.pcap, … and 6 more files" in line


@pytest.mark.parametrize(
    ("nodes", "shown"),
    [
        ((1,), "1 broker"),
        ((1, 2, None), "3 brokers"),
        ((None, None), "2 brokers"),
        ((1, 1, None), "3 addresses of brokers"),
    ],
)
def test_listeners_of_one_broker_are_not_several_brokers(summary, nodes, shown):
    rows = tuple(
        replace(summary.brokers[0], server_port=port, node_id=node) for port, node in enumerate(nodes)
    )
    (line,) = [
        line for line in header(replace(summary, brokers=rows), Terminal(200)) if line.startswith(" Traffic")
    ]
    assert shown in line.split(" · ")


def test_filters_are_shown_since_they_narrow_every_figure(summary):
    assert not any(line.startswith(" Filters") for line in header(summary, Terminal(120)))
    filtered = replace(summary, filters=(AppliedFilter(option="--topic", values=("orders", "a\x1bb")),))
    (line,) = [line for line in header(filtered, Terminal(120)) if line.startswith(" Filters")]
    assert line.split(maxsplit=1)[1] == "--topic orders or a\\x1bb"


def test_what_is_in_flight_at_the_end_is_not_unanswered():
    rows = [
        paper_capture.exchange(2, at, (1, "Fetch", 13), 100 + at, None, status="unanswered")
        for at in range(12)
    ]
    whole = [row | {"lost_bytes": 0, "closed": "open"} for row in paper_capture.CONNECTION_ROWS]
    tables = {
        "connections": paper_capture.table(whole, CONNECTIONS),
        "exchanges": paper_capture.table(rows, EXCHANGES),
    }
    summary = build_report(summarise(tables), paper_capture.CAPTURE)
    text = render(summary, Terminal(120, full=False))
    assert "12 in flight at the end" in text
    assert " 0 unanswered" in text
    assert "unmatched" not in {counter.name for counter in summary.doubts}


def test_refused_attempts_are_connections_without_data():
    silent = {"protocol": "unknown", "closed": "rst", "bytes_to_server": 0, "bytes_to_client": 0}
    rows = [*paper_capture.CONNECTION_ROWS, paper_capture.CONNECTION_ROWS[0] | silent | {"connection": 9}]
    tables = paper_capture.tables() | {"connections": paper_capture.table(rows, CONNECTIONS)}
    text = render(build_report(summarise(tables), paper_capture.CAPTURE), Terminal(160, full=False))
    assert "1 without data" in text
    assert "not recognised" not in text


def test_errors_are_named_by_number_and_usual_ones_are_not_counted():
    summary = build_report(summarise(paper_capture.tables()), paper_capture.CAPTURE)
    first = summary.errors[0]
    kinds = [
        (ApiKey.JOIN_GROUP, ErrorCode.MEMBER_ID_REQUIRED, 5),
        (ApiKey.PRODUCE, ErrorCode.INVALID_TIMESTAMP, 40),
        (ApiKey.FETCH, ErrorCode.OFFSET_OUT_OF_RANGE, 7),
        (ApiKey.LIST_OFFSETS, ErrorCode.OFFSET_OUT_OF_RANGE, 3),
    ]
    errors = tuple(
        replace(first, api_key=int(api), error_code=int(code), error_name=code.name, exchanges=count)
        for api, code, count in kinds
    )
    text = "\n".join(
        header(with_errors(summary, errors, {ApiKey(api): count for api, _, count in kinds}), Terminal(120))
    )
    assert "50 with errors" in text
    assert " Errors      40 INVALID_TIMESTAMP · 10 OFFSET_OUT_OF_RANGE\n" in text
    assert "MEMBER_ID_REQUIRED" not in text


@pytest.mark.parametrize(
    ("responses", "shown"),
    [
        (1, "1 with errors"),  # one that has both
        (7, "2 with errors"),
        (8, "3 with errors"),
    ],
)
def test_a_response_with_an_expected_error_beside_another_is_not_left_out(responses, shown):
    summary = build_report(summarise(paper_capture.tables()), paper_capture.CAPTURE)
    usual = 1 if responses == 1 else 5
    kinds = (
        (ErrorCode.TOPIC_ALREADY_EXISTS, usual),
        (ErrorCode.INVALID_TOPIC_EXCEPTION, min(responses, 2)),
    )
    errors = tuple(
        replace(
            summary.errors[0],
            api_key=int(ApiKey.CREATE_TOPICS),
            error_code=int(code),
            error_name=code.name,
            exchanges=count,
        )
        for code, count in kinds
    )
    found = with_errors(summary, errors, {ApiKey.CREATE_TOPICS: responses})
    assert shown in "\n".join(header(found, Terminal(120)))


def test_no_line_of_errors_without_any():
    summary = replace(build_report(summarise({}), CaptureFacts(packets=7)), errors=())
    assert not any(line.startswith(" Errors") for line in header(summary, Terminal(120)))
