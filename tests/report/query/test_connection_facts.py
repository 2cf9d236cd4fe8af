"""Facts of connections by number, and which connections are doubtful."""

import numpy as np
import pyarrow as pa
import pytest

from kdissect.report.aggregate.grouping import TableColumns
from kdissect.report.partials import EMPTY, summarise
from kdissect.report.query.connection_facts import client_name, read_connection_facts
from tests.helpers import paper_capture
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


def test_a_response_without_client_id_gets_that_of_its_connection(facts):
    rows = facts.rows(numbers(1, 2))
    assert facts.client_ids(pa.array(["own", None]), rows).to_pylist() == ["own", "billing"]


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
