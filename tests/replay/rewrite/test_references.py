"""`replay.rewrite.references`: the topics and groups of a request, and the errors of a response."""

from __future__ import annotations

from kdissect.replay.rewrite.references import errors_of, groups_of, topics_of

FETCH, FIND_COORDINATOR, DESCRIBE_CONFIGS, OFFSET_FETCH = 1, 10, 32, 9


def test_topics_go_by_name_id_or_resource() -> None:
    named = {"topics": [{"topic": "orders", "partitions": []}]}
    assert topics_of(FETCH, 11, named, {}) == ["orders"]
    by_id = {"topics": [{"topic_id": b"o" * 16, "partitions": []}, {"topic_id": b"?" * 16, "partitions": []}]}
    assert topics_of(FETCH, 13, by_id, {b"o" * 16: "sales"}) == ["sales"]
    resources = [{"resource_type": kind, "resource_name": f"r{kind}"} for kind in (2, 4)]
    assert topics_of(DESCRIBE_CONFIGS, 4, {"resources": resources}, {}) == ["r2"]


def test_groups_are_told_from_transactional_ids() -> None:
    assert groups_of(FIND_COORDINATOR, 4, {"key_type": 0, "coordinator_keys": ["g", "h"]}) == ["g", "h"]
    assert groups_of(FIND_COORDINATOR, 4, {"key_type": 1, "coordinator_keys": ["payments"]}) == []
    assert groups_of(OFFSET_FETCH, 8, {"groups": [{"group_id": "g", "topics": None}]}) == ["g"]


def test_errors_come_in_wire_order_and_unknown_versions_have_none() -> None:
    partitions = [{"partition_index": 0, "error_code": 6}, {"partition_index": 1, "error_code": 0}]
    body = {"error_code": 70, "responses": [{"topic": "orders", "partitions": partitions}]}
    assert list(errors_of(FETCH, 11, body)) == [70, 6]
    assert list(errors_of(FETCH, 99, body)) == []
