"""Events of groups and transactions, counted against what brokers logged."""

import json
from collections import Counter

import pytest

from tests.helpers import recorded

MANIFEST = {
    entry["file"]: entry
    for entry in json.loads((recorded.CAPTURES / "manifest.json").read_text())["captures"]
}
JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP, INIT, END_TXN, COMMIT_OFFSETS = 11, 12, 13, 14, 22, 26, 28


def expected(name, api_key):
    """Return how many requests of an API brokers completed at least, and how many were sent at most."""
    found = [row for row in MANIFEST[name]["expected"]["requests"] if row["api_key"] == api_key]
    return sum(row["requests"] for row in found), sum(row["requests_at_most"] or 10**9 for row in found)


@pytest.mark.parametrize(
    "name", ["rebalances.pcapng", "steady.pcapng", "transactions.pcapng", "broker-restart.pcapng"]
)
@pytest.mark.parametrize("api_key", [JOIN_GROUP, SYNC_GROUP, LEAVE_GROUP])
def test_every_join_sync_and_leave_is_a_step(name, api_key):
    steps = [row for row in recorded.rows(name, "group_events") if row["api_key"] == api_key]
    least, most = expected(name, api_key)
    assert least <= len(steps) <= most


@pytest.mark.parametrize("name", ["rebalances.pcapng", "broker-restart.pcapng"])
def test_heartbeats_are_steps_only_where_they_carry_an_error(name):
    errors = MANIFEST[name]["expected"]["errors"]
    told = {row["error_name"]: row["responses"] for row in errors if row["api_key"] == HEARTBEAT}
    found = Counter(
        row["error_name"] for row in recorded.rows(name, "group_events") if row["api_key"] == HEARTBEAT
    )
    assert found == told


@pytest.mark.parametrize("api_key", [INIT, END_TXN, COMMIT_OFFSETS])
def test_every_step_of_a_transaction(api_key):
    steps = [
        row for row in recorded.rows("transactions.pcapng", "transaction_events") if row["api_key"] == api_key
    ]
    least, most = expected("transactions.pcapng", api_key)
    assert least <= len(steps) <= most


def test_commits_and_aborts_as_the_clients_did_them():
    """Each transactional producer of this capture commits two of three transactions (see its scenario)."""
    events = recorded.rows("transactions.pcapng", "transaction_events")
    ended = Counter(
        (row["transactional_id"], row["event"])
        for row in events
        if row["api_key"] == END_TXN and not row["error_code"]
    )
    assert ended["bank-java", "commit"] == 2 * ended["bank-java", "abort"] > 0
    assert ended["bank-rdkafka", "commit"] == ended["bank-java", "commit"]


def test_steps_agree_with_their_exchanges():
    exchanges = {
        (row["connection"], row["ordinal"]): row for row in recorded.rows("rebalances.pcapng", "exchanges")
    }
    steps = recorded.rows("rebalances.pcapng", "group_events")
    assert steps
    for step in steps:
        exchange = exchanges[step["connection"], step["ordinal"]]
        for name in ("api_key", "client_id", "group_id", "request_packet", "response_packet", "error_code"):
            assert step[name] == exchange[name]
        assert step["asked_ns"] == exchange["request_first_ns"]
        assert step["time_ns"] == (exchange["response_last_ns"] or exchange["request_first_ns"])


def test_a_generation_has_one_leader():
    joins = [
        row
        for row in recorded.rows("rebalances.pcapng", "group_events")
        if row["event"] == "join" and row["api_key"] == JOIN_GROUP and not row["error_code"]
    ]
    by_generation = Counter((row["group_id"], row["generation"]) for row in joins if row["leader"])
    everyone = {(row["group_id"], row["generation"]) for row in joins}
    assert set(by_generation.values()) == {1}
    assert len(by_generation) >= len(everyone) - 1
    # The leader is told of all members: as many as joined that generation.
    for row in joins:
        if row["leader"]:
            same = {
                one["member_id"]
                for one in joins
                if (one["group_id"], one["generation"]) == (row["group_id"], row["generation"])
            }
            assert row["members"] == len(same)
