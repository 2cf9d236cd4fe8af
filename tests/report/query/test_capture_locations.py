"""Rows of a partial as places in the capture, with addresses, clients and names of topics."""

import pyarrow as pa
import pytest

from kdissect.report.aggregate.grouping import TableColumns
from kdissect.report.model.findings import Location
from kdissect.report.query.capture_locations import capture_locations
from kdissect.report.query.connection_facts import read_connection_facts
from kdissect.report.query.topic_names import TopicNames
from tests.helpers.paper_capture import ORDERS_ID

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
