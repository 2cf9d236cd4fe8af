"""Figures of connections on the capture worked out on paper."""

from tests.helpers.paper_capture import US


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
