"""Rankings of APIs, clients and brokers, and the node ids of addresses."""

import pytest

from kdissect.report.build.rankings import rank_brokers, rank_clients
from kdissect.report.partials import summarise
from kdissect.report.query.call_table import CallTable
from kdissect.report.query.connection_facts import read_connection_facts
from kdissect.report.query.topic_names import node_ids
from tests.helpers.paper_capture import MS, T
from tests.helpers.report_rows import PRODUCE, connection, exchange_of, tables


def test_apis_in_order_of_service_time(summary):
    assert [(row.api_name, row.api_version, row.figures.time_share) for row in summary.apis] == [
        ("Produce", 9, 0.615385),
        ("Metadata", 12, 0.307692),
        ("Fetch", 13, 0.076923),
        (None, None, 0),
    ]
    produce, _, fetch, orphans = summary.apis
    assert (produce.slowest.request_packet, produce.slowest.response_packet) == (12, 13)
    assert (produce.first_unanswered.request_packet, produce.first_unanswered.client_port) == (18, 40001)
    assert produce.first_throttled.time_ns == T + 1 * MS
    assert fetch.slowest.request_packet == 20
    assert orphans.first_orphan.response_packet == 29
    assert orphans.first_orphan.server_host == "10.0.0.2"


def test_clients_and_brokers(summary):
    orders, billing = summary.clients
    assert (orders.name.client_id, orders.name.client_software_name, orders.figures.exchanges) == (
        "orders-app",
        "librdkafka",
        5,
    )
    assert (billing.name.client_id, billing.name.client_host, billing.figures.exchanges) == (
        "billing",
        "10.1.0.2",
        4,
    )
    assert billing.figures.orphan_responses == 1
    assert [
        (row.server_host, row.node_id, row.connections, row.figures.exchanges) for row in summary.brokers
    ] == [
        ("10.0.0.1", 1, 1, 5),
        ("10.0.0.2", 2, 1, 4),
    ]


def broker(node_id, host, port=9092):
    return {"node_id": node_id, "host": host, "port": port}


@pytest.mark.parametrize(
    ("brokers", "nodes"),
    [
        ([], {}),
        ([broker(1, "a"), broker(2, "b")], {("a", 9092): 1, ("b", 9092): 2}),
        ([broker(1, "a"), broker(2, "a")], {}),  # two nodes at one address
        ([broker(1, "x", 9093)], {("c", 9093): 1}),  # advertised under another name, but on a port of its own
        ([broker(1, "x", 9093), broker(2, "y", 9093)], {}),
        ([broker(1, "x")], {}),  # two addresses have that port
        ([broker(1, "localhost", 9094)], {("127.0.0.1", 9094): 1}),
    ],
)
def test_an_address_has_a_node_id_only_if_it_can_be_one_broker(brokers, nodes):
    addresses = [("a", 9092), ("b", 9092), ("c", 9093), ("127.0.0.1", 9094), (None, None)]
    assert node_ids(addresses, brokers) == nodes


def test_rankings_are_limited_and_say_what_they_left_out():
    calls = [exchange_of(at, 0, PRODUCE, 0, at * MS) for at in (1, 2, 3)]
    hosts = [connection(at, server_host=f"10.0.0.{at}") for at in (1, 2, 3)]
    partial = summarise(tables(calls, [], hosts))
    table = CallTable(partial, read_connection_facts(partial))
    clients, brokers = rank_clients(table, 2), rank_brokers(table, [], 1)
    assert ([row.name.client_id for row in clients.rows], clients.omitted) == (["client-3", "client-2"], 1)
    assert ([row.server_host for row in brokers.rows], brokers.omitted) == (["10.0.0.3"], 2)
