"""`replay.rewrite.names`, against a target on paper."""

from __future__ import annotations

from tests.helpers.rewriting_cases import names, rewritten


def test_maps_come_before_the_prefix() -> None:
    known = names(topic_map={"orders": "o2"}, group_map={"g": "g2"}, transactional_map={"x": "x2"})
    assert rewritten(3, 4, {"topics": [{"name": "orders"}, {"name": "b"}]}, known)["topics"] == [
        {"name": "o2"},
        {"name": "t-b"},
    ]
    assert rewritten(10, 4, {"key_type": 0, "coordinator_keys": ["g", "h"]}, known)["coordinator_keys"] == [
        "g2",
        "t-h",
    ]
    assert rewritten(10, 4, {"key_type": 1, "coordinator_keys": ["x", "g"]}, known)["coordinator_keys"] == [
        "x2",
        "t-g",
    ]
