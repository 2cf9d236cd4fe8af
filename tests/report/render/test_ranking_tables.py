"""Tables of API versions, idle waits, clients, brokers and topics, on the capture worked out on paper."""

import pytest

from kdissect.report.render.ranking_tables import api_versions, brokers, clients, idle_waits, topics
from kdissect.report.render.terminal import Terminal
from tests.helpers.paper_capture import partition
from tests.helpers.report_rows import FETCH, PRODUCE, exchange_of, many, report

SECTIONS = (api_versions, idle_waits, clients, brokers, topics)
WIDE = Terminal(200)


def rows(section, summary, terminal=WIDE):
    """Return the words of each row of a section, without its heading and its columns."""
    return [line.split() for line in section(summary, terminal) if line.startswith(" ")][1:]


def test_a_report_without_exchanges_has_none_of_them():
    assert [section(report([], [], []), WIDE) for section in SECTIONS] == [[]] * 5


def test_apis_are_in_order_of_service_time(summary):
    shown = rows(api_versions, summary)
    assert [row[:2] for row in shown] == [
        ["Produce", "v9"],
        ["Metadata", "v12"],
        ["Fetch", "v13?"],
        ["(no", "request)?"],
    ]
    assert shown[0][2:4] == ["4", "61.5%"]


def test_idle_waits_are_not_service_time(summary):
    ((api, version, count, total, *_),) = rows(idle_waits, summary)
    assert (api, version, count, total) == ("Fetch", "v13?", "1", "500ms")


def test_a_doubtful_row_has_a_mark(summary):
    assert [row[0] for row in rows(clients, summary)] == ["orders-app", "billing?"]
    assert [row[:2] for row in rows(brokers, summary)] == [["10.0.0.1:9092", "1"], ["10.0.0.2:9092?", "2"]]


def test_node_ids_are_shown_only_if_one_is_known(summary):
    known, unknown = (brokers(one, WIDE)[1].split() for one in (summary, report(many(1, PRODUCE, 1))))
    assert ("node" in known, "node" in unknown) == (True, False)


def test_topics_show_what_is_written_and_what_is_read(summary):
    orders, audit, unnamed = rows(topics, summary)
    assert orders[:3] == ["orders", "2", "161"]
    assert ("zstd" in orders, "billing" in orders, orders[-1]) == (True, True, "1")
    assert audit[:3] == ["audit", "1", "5"]
    assert unnamed[1] == "(id)"


def test_of_several_codecs_the_one_with_most_bytes_is_named_with_its_share():
    calls = [
        partition(1, at, 0, 0, 10 + at, topic="t", codec=codec) for at, codec in enumerate(("lz4", "zstd"))
    ]
    ((*words,),) = rows(topics, report(many(2, PRODUCE, 1), calls))
    assert words[words.index("zstd") + 1] == "52.4%"


def test_of_several_clients_the_first_is_named():
    exchanges = [exchange_of(number, 0, FETCH, 0) for number in (1, 2, 3)]
    read = [partition(number, 0, 1, 0, number, topic="t") for number in (1, 2, 3)]
    ((*words,),) = rows(topics, report(exchanges, read))
    assert words[words.index("client-3") + 1] == "+2"


@pytest.mark.parametrize("section", SECTIONS)
@pytest.mark.parametrize("width", [60, 90])
def test_lines_fit_the_terminal(summary, section, width):
    assert max(map(len, section(summary, Terminal(width)))) <= width
