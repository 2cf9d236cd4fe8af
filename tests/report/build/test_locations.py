"""Errors, faults and first occurrences, each with its place in the capture worked out on paper."""

from tests.helpers.paper_capture import MS, T


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
