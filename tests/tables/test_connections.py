"""Rows of connections agree with the exchanges on them."""

from collections import Counter

import numpy as np

from kdissect.tables.connections import ConnectionDetails
from tests.helpers import recorded

NAME = "refusals.pcapng"


def test_requests_and_faults_are_counted() -> None:
    exchanges = recorded.rows(NAME, "exchanges")
    requests = Counter(row["connection"] for row in exchanges if row["ordinal"] is not None)
    faults = Counter(row["connection"] for row in exchanges if row["fault"] is not None)
    unanswered = Counter(row["connection"] for row in exchanges if row["status"] == "unanswered")
    rows = recorded.rows(NAME, "connections")
    assert requests
    for row in rows:
        connection = row["connection"]
        assert row["requests"] == requests[connection]
        assert row["faults"] == faults[connection]
        assert row["unanswered"] == unanswered[connection]


def test_the_first_client_id_is_that_of_the_connection() -> None:
    first: dict[int, str] = {}
    for row in recorded.rows(NAME, "exchanges"):
        if row["client_id"] is not None:
            first.setdefault(row["connection"], row["client_id"])
    assert first
    assert {
        row["connection"]: row["client_id"] for row in recorded.rows(NAME, "connections") if row["client_id"]
    } == first


def test_a_connection_has_two_ends_and_two_times() -> None:
    rows = recorded.rows(NAME, "connections")
    assert len({row["connection"] for row in rows}) == len(rows)
    for row in rows:
        assert (row["client_host"], row["client_port"]) != (row["server_host"], row["server_port"])
        assert row["first_time_ns"] <= row["last_time_ns"]
        assert row["opened"] in ("handshake", "midstream")


def test_a_connection_without_a_value_is_asked_for_once() -> None:
    details = ConnectionDetails()
    connection = np.array([0, 0, 3, 3, 1])
    assert details._unknown("client_id", connection, np.array([0, 1, 3])).tolist() == [0, 1, 2]
    assert details._unknown("client_id", np.array([3, 2, 0, 7]), np.arange(4)).tolist() == [1, 3]
    assert details._unknown("client_software_name", connection, np.array([2])).tolist() == [0]
    assert details._unknown("client_id", connection[:0], np.arange(0)).tolist() == []
