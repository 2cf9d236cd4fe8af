"""Rankings of APIs, clients and brokers, and the node ids of addresses."""

from tests.helpers.paper_capture import MS, T


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
