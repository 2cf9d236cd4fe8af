"""Waits by design: fetches without data, joins, and syncs of members that do not lead."""

from kdissect.protocol.api_keys import FETCHES, ApiKey
from tests.helpers import recorded

NAME = "rebalances.pcapng"


def test_only_fetches_joins_and_syncs_wait_by_design() -> None:
    idle = [row for row in recorded.rows(NAME, "exchanges") if row["idle_wait"]]
    assert {row["api_key"] for row in idle} <= {*FETCHES, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP}
    assert {row["status"] for row in idle} == {"answered"}
    assert not any(row["error_code"] for row in idle)


def test_every_join_without_an_error_is_a_wait() -> None:
    rows = recorded.rows(NAME, "exchanges")
    joins = [row for row in rows if row["api_key"] == ApiKey.JOIN_GROUP and row["status"] == "answered"]
    assert joins
    assert all(row["idle_wait"] is (row["error_code"] == 0) for row in joins)


def test_the_sync_of_a_leader_is_not_a_wait() -> None:
    events = recorded.rows(NAME, "group_events")
    leads = {(row["connection"], row["ordinal"]): row["leader"] for row in events if row["event"] == "sync"}
    syncs = [row for row in recorded.rows(NAME, "exchanges") if row["api_key"] == ApiKey.SYNC_GROUP]
    answered = [row for row in syncs if row["status"] == "answered" and row["error_code"] == 0]
    assert {leads[row["connection"], row["ordinal"]] for row in answered} == {True, False}
    assert all(row["idle_wait"] is not leads[row["connection"], row["ordinal"]] for row in answered)
