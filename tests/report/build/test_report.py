"""The figures of the hand-made capture, worked out on paper."""

import pytest

from kdissect.report.build.report import build_report
from kdissect.report.partials import summarise
from tests.helpers.paper_capture import CAPTURE, MS, ORDERS_ID, OTHER_ID, US, T, tables


@pytest.fixture(scope="module")
def summary():
    return build_report(summarise(tables()), CAPTURE)


def test_totals(summary):
    totals = summary.totals
    assert (totals.exchanges, totals.answered, totals.no_response_expected) == (9, 6, 1)
    assert (totals.unanswered, totals.orphan_responses) == (1, 1)
    assert (totals.unanswered_closed, totals.unanswered_open, totals.unanswered_lossy) == (1, 0, 0)
    assert (totals.error_responses, totals.errors, totals.faults, totals.untimed) == (1, 1, 1, 1)
    assert totals.request_bytes == 1000 + 7 * 100
    assert totals.response_bytes == 5 * 60 + 5000 + 40
    assert (totals.throttled, totals.throttle_ms, totals.throttle_max_ms) == (1, 200, 200)
    assert (totals.acks_none, totals.acks_leader, totals.acks_all) == (1, 1, 2)
    assert (totals.pipelined, totals.in_flight_max) == (1, 2)
    assert (totals.transfer_ns, totals.transfer_max_ns) == (6 * 10 * US, 10 * US)
    assert totals.doubtful == 4
    assert totals.first_time_ns == T
    assert totals.last_time_ns == T + 1500 * MS


def test_service_time_has_no_idle_waits_and_no_impossible_latency(summary):
    service, idle = summary.totals.service, summary.totals.idle
    assert (service.count, service.sum_ns, service.min_ns, service.max_ns) == (4, 6500 * US, 500 * US, 3 * MS)
    assert service.mean_ns == 1625 * US
    assert service.p50_ns == pytest.approx(1 * MS, rel=0.005)  # rank 2 of 4
    assert service.p90_ns == pytest.approx(3 * MS, rel=0.005)  # rank 4 of 4
    # Deviations of 0.5, 1, 2 and 3 ms from 1.625 ms: variance 0.921875 ms², over the mean 0.5673 ms.
    assert service.variance_to_mean_ns == pytest.approx(567_308, rel=0.02)
    assert (idle.count, idle.sum_ns, idle.p50_ns) == (1, 500 * MS, 500 * MS)


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


def test_topics_by_name_and_by_id(summary):
    assert [(topic.topic, topic.topic_ids, topic.resolved, topic.partitions) for topic in summary.topics] == [
        ("orders", (ORDERS_ID,), True, 2),
        ("audit", (), True, 1),
        (OTHER_ID, (OTHER_ID,), False, 1),
    ]
    write, read = summary.topics[0].uses
    assert (write.api_name, write.exchanges, write.mentions, write.errors) == ("Produce", 3, 4, 1)
    assert (write.records, write.batches, write.record_bytes, write.codecs) == (161, 4, 1610, {"zstd": 1610})
    assert (write.service.count, write.service.sum_ns, write.idle) == (2, 4 * MS, None)
    assert [(client.name.client_id, client.exchanges, client.records) for client in write.clients] == [
        ("orders-app", 3, 161)
    ]
    assert (read.api_name, read.exchanges, read.records, read.record_bytes) == ("Fetch", 2, 150, 1500)
    assert (read.service.sum_ns, read.idle.sum_ns) == (500 * US, 500 * MS)


def test_the_error_is_counted_once_and_knows_its_partition(summary):
    (error,) = summary.errors
    assert (error.error_code, error.error_name, error.exchanges, error.partitions) == (
        6,
        "NOT_LEADER_OR_FOLLOWER",
        1,
        1,
    )
    first = error.first
    assert (first.time_ns, first.request_packet, first.response_packet) == (T + 103 * MS, 12, 13)
    assert (first.topic, first.partition, first.client_id, first.client_host) == (
        "orders",
        0,
        "orders-app",
        "10.1.0.1",
    )


def test_the_fault_has_a_shape_and_an_example(summary):
    (fault,) = summary.faults
    assert fault.shape == "response.responses[#].partitions: length # of # left (offset #)"
    assert fault.first.detail == "response.responses[3].partitions: length 70000 of 12 left (offset 41)"
    assert (fault.api_name, fault.api_version, fault.exchanges, fault.first.topic) == ("Fetch", 13, 1, None)


def test_connections(summary):
    seen = summary.connections
    assert (seen.count, seen.opened_by_handshake, seen.midstream, seen.one_way) == (3, 1, 1, 0)
    assert (seen.closed_by_fin, seen.closed_by_rst, seen.still_open) == (1, 0, 1)
    assert [(row.software_name, row.connections) for row in seen.software] == [
        ("apache-kafka-java", 1),
        ("librdkafka", 1),
    ]
    assert (seen.lossy, seen.lost_bytes) == (1, 500)
    assert (seen.bytes_to_server, seen.bytes_to_client) == (3300, 6200)
    assert (seen.server_rtt.count, seen.server_rtt.max_ns, seen.client_rtt.max_ns) == (1, 200 * US, 50 * US)
    assert [(row.protocol, row.connections, row.bytes) for row in seen.protocols] == [
        ("kafka", 2, 9500),
        ("tls", 1, 500),
    ]


def test_doubts(summary):
    assert [(doubt.name, doubt.count, doubt.of) for doubt in summary.doubts] == [
        ("lost_bytes", 500, 10_000),
        ("midstream_connections", 1, 2),
        ("unmatched", 2, 8),
        ("faults", 1, 9),
        ("untimed", 1, 6),
        ("encrypted_bytes", 500, 10_000),
    ]
