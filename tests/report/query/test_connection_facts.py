"""Facts of connections by number, which connections are doubtful, and places in the capture."""

import numpy as np
import pyarrow as pa
import pytest

from kdissect.report.aggregate.grouping import TableColumns
from kdissect.report.model.findings import Location
from kdissect.report.partials import EMPTY, summarise
from kdissect.report.query import connection_facts as module
from kdissect.report.query.connection_facts import capture_locations, client_name, read_connection_facts
from kdissect.report.query.topic_names import TopicNames
from kdissect.tables.coded_text import code_text
from tests.helpers import paper_capture
from tests.helpers.paper_capture import ORDERS_ID
from tests.helpers.report_rows import connection, tables


@pytest.fixture(scope="module")
def facts():
    return read_connection_facts(summarise(paper_capture.tables()))


def numbers(*values):
    return TableColumns(pa.table({"connection": pa.array(values, pa.int64())}))


def test_rows_are_found_by_number(facts):
    rows = facts.rows(numbers(2, 9, None, 1))
    assert rows[[1, 2]].tolist() == [-1, -1]
    assert facts.column_at("client_id", rows).to_pylist() == ["billing", None, None, "orders-app"]


@pytest.mark.parametrize("wanted", [(2, 9, None, 1), (1, 1, 2), (7,), ()])
def test_rows_of_many_are_found_as_those_of_few(facts, monkeypatch, wanted):
    few = facts.rows(numbers(*wanted)).tolist()
    monkeypatch.setattr(module, "are_many", lambda _rows: True)
    assert facts.rows(numbers(*wanted)).tolist() == few


def test_rows_of_single_numbers(facts):
    assert facts.rows_of([2, None, 9, 1]) == [1, -1, -1, 0]
    assert facts.rows_of([]) == []
    assert read_connection_facts(EMPTY).rows_of([1]) == [-1]


def test_a_response_without_client_id_gets_that_of_its_connection(facts):
    rows = facts.rows(numbers(1, 2))
    own = pa.array(["own", None])
    assert facts.client_ids(own, rows).to_pylist() == ["own", "billing"]
    assert facts.clients(code_text(own), rows).tolist() == ["own", "billing"]


def test_lost_bytes_make_a_connection_doubtful(facts):
    flags = facts.flags(facts.rows(numbers(1, 2, 9)))
    assert flags.lossy.tolist() == [False, True, False]
    assert flags.closed.tolist() == [True, False, False]
    assert facts.complete(facts.rows(numbers(1, 2, 9))).tolist() == [True, False, False]


@pytest.mark.parametrize(
    ("shown", "is_one_way"),
    [
        ({}, True),
        ({"server_acks": 1}, False),
        ({"closed_by": "server"}, False),
        ({"closed_by": "client"}, True),
    ],
)
def test_a_direction_is_captured_if_any_packet_of_it_is(shown, is_one_way):
    silent = connection(1, opened="midstream", bytes_to_server=351, bytes_to_client=0, server_rtt_ns=None)
    rows = [silent | {"server_acks": 0, "closed": "open", "closed_by": None} | shown]
    facts = read_connection_facts(summarise(tables([], [], rows)))
    assert facts.one_way.tolist() == [is_one_way]


def test_bytes_that_the_receiver_misses_too_leave_no_doubt():
    lost = {"lost_bytes": 100}
    rows = [
        connection(1),
        connection(2, **lost),
        connection(3, unacknowledged_bytes_to_client=100, **lost),
    ]
    known = read_connection_facts(summarise(tables([], [], rows)))
    assert known.doubtful.tolist() == [False, True, False]


def test_without_connections_nothing_is_known():
    facts = read_connection_facts(EMPTY)
    rows = facts.rows(numbers(1))
    assert rows.tolist() == [-1]
    assert not np.any(facts.flags(rows).lossy)
    assert not np.any(facts.complete(rows))


def test_a_client_has_the_columns_of_its_software_and_host():
    name = client_name("orders", ["librdkafka", "2.6.1", "10.0.0.1"])
    assert (name.client_software_name, name.client_software_version, name.client_host) == (
        "librdkafka",
        "2.6.1",
        "10.0.0.1",
    )


SCHEMA = pa.schema(
    [
        ("capture_file", pa.string()),
        ("request_packet", pa.int64()),
        ("response_packet", pa.int64()),
        ("connection", pa.int64()),
        ("client_id", pa.string()),
        ("topic", pa.string()),
        ("topic_id", pa.string()),
        ("partition", pa.int32()),
    ]
)


@pytest.fixture
def locate(partial):
    def locate(*rows, schema=SCHEMA):
        table = pa.Table.from_pylist(list(rows), schema)
        facts = read_connection_facts(partial)
        return capture_locations(TableColumns(table), [7] * len(rows), facts, TopicNames(partial))

    return locate


def test_the_ends_are_those_of_the_connection(locate):
    (found,) = locate(
        {"connection": 1, "capture_file": "shop.pcapng", "request_packet": 10, "client_id": "me"}
    )
    assert (found.time_ns, found.capture_file, found.request_packet, found.response_packet) == (
        7,
        "shop.pcapng",
        10,
        None,
    )
    assert (found.client_host, found.client_port, found.server_host, found.server_port) == (
        "10.1.0.1",
        40001,
        "10.0.0.1",
        9092,
    )


def test_a_row_without_a_client_id_has_that_of_its_connection(locate):
    own, other = locate({"connection": 1, "client_id": "own"}, {"connection": 2})
    assert (own.client_id, other.client_id) == ("own", "billing")


def test_a_topic_id_becomes_a_name(locate):
    (found,) = locate({"connection": 2, "topic_id": ORDERS_ID, "partition": 3})
    assert (found.topic, found.partition) == ("orders", 3)


def test_a_connection_that_is_not_there_has_no_ends(locate):
    nowhere, unknown = locate({}, {"connection": 99})
    assert (nowhere.connection, unknown.connection) == (None, 99)
    for found in (nowhere, unknown):
        assert isinstance(found, Location)
        assert (found.client_host, found.server_port, found.client_id, found.topic) == (
            None,
            None,
            None,
            None,
        )


def test_a_detail_is_taken_if_the_rows_have_one(locate):
    with_detail = SCHEMA.append(pa.field("detail", pa.string()))
    (found,) = locate({"connection": 1, "detail": "length 7 of 3"}, schema=with_detail)
    assert found.detail == "length 7 of 3"
    assert locate({"connection": 1})[0].detail is None
