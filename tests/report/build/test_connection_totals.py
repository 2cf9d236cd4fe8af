"""Figures of connections on the capture worked out on paper."""

from tests.helpers.paper_capture import US
from tests.helpers.report_rows import connection, report


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


def test_only_kafka_counts_in_totals_and_all_protocols_in_their_list():
    rows = [
        connection(1, lost_bytes=5, opened="midstream"),
        connection(2, protocol="unknown", lost_bytes=7, opened="midstream", closed="rst"),
        connection(3, protocol="kafka-0.7", closed="open"),
    ]
    totals = report([], [], rows).connections
    assert (totals.count, totals.lost_bytes, totals.midstream) == (3, 5, 1)
    assert (totals.closed_by_fin, totals.closed_by_rst, totals.still_open) == (1, 0, 1)
    assert [row.protocol for row in totals.protocols] == ["kafka", "kafka-0.7", "unknown"]


def test_tls_and_sasl_are_counted_by_what_was_agreed_and_what_came_of_it():
    secured = {"tls_version": "TLS 1.3", "tls_outcome": "completed", "tls_undecrypted_bytes": 10}
    login = {"sasl_mechanism": "PLAIN", "sasl_outcome": "failed", "sasl_error": "SASL_AUTHENTICATION_FAILED"}
    rows = [connection(1, **secured), connection(2, **secured), connection(3, **login), connection(4)]
    totals = report([], [], rows).connections
    (tls,), (sasl,) = totals.tls, totals.sasl
    assert (tls.version, tls.connections, tls.bytes, tls.undecrypted_bytes) == ("TLS 1.3", 2, 4000, 20)
    assert (sasl.mechanism, sasl.outcome, sasl.connections) == ("PLAIN", "failed", 1)


def test_a_round_trip_that_cannot_be_is_left_out():
    rows = [connection(at, server_rtt_ns=rtt, client_rtt_ns=None) for at, rtt in enumerate((-5, 100, 300))]
    totals = report([], [], rows).connections
    assert (totals.server_rtt.count, totals.server_rtt.min_ns, totals.server_rtt.max_ns) == (2, 100, 300)
    assert totals.client_rtt is None
