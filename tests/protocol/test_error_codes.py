"""Error codes have Kafka's names, and unknown ones have a name too."""

import pytest

from kdissect.protocol.error_codes import (
    CODES,
    ErrorCode,
    error_name,
    is_retriable,
)


def test_the_codes_of_kafka_4_4_are_all_there() -> None:
    assert sorted(ErrorCode) == list(range(-1, 137))
    assert len(CODES) == 138


@pytest.mark.parametrize(
    ("code", "name", "retriable"),
    [
        (-1, "UNKNOWN_SERVER_ERROR", False),
        (0, "NONE", False),
        (3, "UNKNOWN_TOPIC_OR_PARTITION", True),
        (6, "NOT_LEADER_OR_FOLLOWER", True),
        (27, "REBALANCE_IN_PROGRESS", False),
        (35, "UNSUPPORTED_VERSION", False),
        (51, "CONCURRENT_TRANSACTIONS", True),
        (134, "GROUP_DELETION_FAILED", False),
        (137, "UNKNOWN(137)", False),
        (-2, "UNKNOWN(-2)", False),
        (32767, "UNKNOWN(32767)", False),
    ],
)
def test_name_and_retriability(code: int, name: str, retriable: bool) -> None:
    assert (error_name(code), is_retriable(code)) == (name, retriable)
