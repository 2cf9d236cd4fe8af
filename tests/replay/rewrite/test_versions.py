"""`replay.rewrite.versions`, against a target on paper."""

from __future__ import annotations

from typing import Any

import pytest

from kdissect.protocol.codec.messages import encode
from kdissect.protocol.schema.registry import APIS
from kdissect.replay.disposition import SkipRequest
from kdissect.replay.rewrite.versions import (
    chosen_version,
    convert,
    true_ranges,
)
from tests.helpers.rewriting_cases import NEW, names


def test_the_captured_version_is_kept_where_the_target_speaks_it() -> None:
    assert chosen_version(1, 11, (4, 18)) == 11
    assert chosen_version(1, 2, (4, 18)) == 4
    assert chosen_version(0, 13, (3, 9)) == 9
    assert chosen_version(24, 3, (0, 5)) == 3
    assert chosen_version(24, 5, (4, 5)) is None
    assert chosen_version(1, 11, None) is None


def test_a_listed_produce_0_is_not_spoken() -> None:
    assert true_ranges({0: (0, 13), 1: (4, 18)})[0] == (3, 13)
    assert true_ranges({0: (0, 3), 1: (0, 5)})[0] == (0, 3)


CONSUMER: dict[str, Any] = {"protocol_type": "consumer", "protocols": []}


@pytest.mark.parametrize(
    ("key", "captured", "sent", "body", "expected"),
    [
        (
            9,
            7,
            8,
            {"group_id": "g", "topics": None, "require_stable": True},
            {"require_stable": True, "groups": [{"group_id": "g", "topics": None}]},
        ),
        (
            9,
            8,
            7,
            {"groups": [{"group_id": "g", "topics": None}], "require_stable": True},
            {"group_id": "g", "topics": None, "require_stable": True},
        ),
        (
            11,
            0,
            2,
            {"group_id": "g", "session_timeout_ms": 10_000, "member_id": "", **CONSUMER},
            {
                "group_id": "g",
                "session_timeout_ms": 10_000,
                "rebalance_timeout_ms": 10_000,  # as brokers take version 0
                "member_id": "",
                **CONSUMER,
            },
        ),
        (10, 3, 4, {"key": "g", "key_type": 0}, {"key_type": 0, "coordinator_keys": ["g"]}),
        (10, 4, 2, {"key_type": 1, "coordinator_keys": ["x"]}, {"key": "x", "key_type": 1}),
        (13, 2, 3, {"group_id": "g", "member_id": "m"}, {"group_id": "g", "members": [{"member_id": "m"}]}),
        (
            13,
            5,
            2,
            {"group_id": "g", "members": [{"member_id": "m", "reason": "bye"}]},
            {"group_id": "g", "member_id": "m"},
        ),
        (
            20,
            3,
            6,
            {"topic_names": ["t-orders"], "timeout_ms": 9},
            {"topics": [{"name": "t-orders"}], "timeout_ms": 9},
        ),
        (
            8,
            9,
            10,
            {"group_id": "g", "topics": [{"name": "t-orders", "partitions": []}]},
            {"group_id": "g", "topics": [{"topic_id": NEW, "partitions": []}]},
        ),
        (
            8,
            10,
            9,
            {"group_id": "g", "topics": [{"topic_id": NEW, "partitions": []}]},
            {"group_id": "g", "topics": [{"name": "t-orders", "partitions": []}]},
        ),
    ],
)
def test_requests_take_another_shape(
    key: int, captured: int, sent: int, body: dict[str, Any], expected: dict[str, Any]
) -> None:
    done = convert(key, body, captured, sent, names())
    assert done.losses == ()
    assert done.tree == expected
    encode(APIS[key].request, sent, done.tree)


def test_what_gets_lost_has_a_name() -> None:
    static = {"group_id": "g", "group_instance_id": "i", "member_id": "m", "generation_id": 1}
    assert convert(12, static, 4, 2, names()).losses == ("group_instance_id",)
    assert convert(12, static | {"group_instance_id": None}, 4, 2, names()).losses == ()
    stable = {"group_id": "g", "topics": [], "require_stable": True}
    assert convert(9, stable, 7, 5, names()).losses == ("require_stable",)


def test_an_id_that_the_target_does_not_have_is_never_zero() -> None:
    with pytest.raises(SkipRequest, match="not on the target"):
        convert(8, {"group_id": "g", "topics": [{"name": "gone", "partitions": []}]}, 9, 10, names())
