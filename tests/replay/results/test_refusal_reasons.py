"""`replay.results.refusal_reasons`: settings that explain a verdict stand before the errors."""

from __future__ import annotations

from typing import Any

from kdissect.protocol.error_codes import ErrorCode
from kdissect.replay.disposition import NOT_IN
from kdissect.replay.results.run_comparison import compare
from tests.helpers.run_pairs import error, pair, run

TOLD = "the target refuses sessions of 3,000 ms (its group.min.session.timeout.ms is 6,000)"


def refused(index: int, api: str, captured: int, replayed: int) -> dict[str, Any]:
    made = error(index, captured, replayed) | {"api": api, "produced": []}
    made["captured"].pop("produced")
    return made


def unsent(index: int) -> dict[str, Any]:
    return pair(
        index, api="Heartbeat", bucket="dependency", reason=NOT_IN, sent=None, answers=[], produced=[]
    )


def verdict(*pairs: dict[str, Any], sessions: tuple[str, ...] = ()) -> tuple[str, list[str]]:
    facts = run(len(pairs))
    facts["plan"]["target"]["refused_sessions"] = list(sessions)
    report = compare(facts, pairs)
    return report["verdict"], report["because"]


def test_a_target_that_refuses_a_session_is_to_blame_for_what_its_member_could_not_send() -> None:
    join = refused(0, "JoinGroup", 0, ErrorCode.INVALID_SESSION_TIMEOUT)
    assert verdict(join, unsent(1), unsent(2), sessions=(TOLD,)) == (
        "diverged",
        [TOLD, "1 JoinGroup: NONE became INVALID_SESSION_TIMEOUT"],
    )
    assert verdict(join, unsent(1))[1][0] == "the target refuses the session timeouts of members"


def test_without_a_refusal_members_that_are_missing_make_a_run_invalid() -> None:
    found, because = verdict(pair(0), unsent(1), sessions=(TOLD,))
    assert (found, because[0]) == ("invalid", f"1 of 2 requests to be sent could not be: {NOT_IN}")
    assert TOLD not in because


def test_a_target_without_an_authorizer_is_named() -> None:
    assert verdict(refused(0, "DescribeAcls", 0, ErrorCode.SECURITY_DISABLED)) == (
        "diverged",
        [
            "the target has no authorizer (DescribeAcls: SECURITY_DISABLED)",
            "1 DescribeAcls: NONE became SECURITY_DISABLED",
        ],
    )


def test_access_rights_of_one_cluster_only_are_named_with_all_that_they_refused() -> None:
    group, topic = ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED
    join = refused(0, "JoinGroup", group, ErrorCode.MEMBER_ID_REQUIRED)
    assert verdict(join, refused(1, "Metadata", topic, 0)) == (
        "diverged",
        [
            (
                "the capture was refused by access rights that the target does not have: "
                "1 JoinGroup GROUP_AUTHORIZATION_FAILED, 1 Metadata TOPIC_AUTHORIZATION_FAILED"
            ),
            "1 JoinGroup: GROUP_AUTHORIZATION_FAILED became MEMBER_ID_REQUIRED",
        ],
    )
    assert verdict(refused(0, "JoinGroup", 0, group))[1][0] == (
        "the target refuses by access rights that the captured cluster did not have: "
        "1 JoinGroup GROUP_AUTHORIZATION_FAILED"
    )
    assert verdict(refused(0, "Metadata", topic, 0)) == ("pass", [])


def test_a_broker_that_was_down_is_named_before_the_errors() -> None:
    def because(refused: int, closed: int, *pairs: dict[str, Any]) -> list[str]:
        connections = {"opened": 9, "refused": refused, "closed_by_peer": closed}
        return list(compare(run(len(pairs), connections=connections), pairs)["because"])

    failed = error(0, 0, 87)
    gone = pair(0, bucket="closed", answers=[])
    gone["sent"]["received_ns"] = None
    assert because(7, 2, failed)[0] == (
        "a broker of the target was out of reach for a while: 7 connections were refused, and 2 closed"
    )
    assert because(0, 2, gone)[0] == "the target closed 2 connections"
    assert because(0, 2, failed)[0] == "1 Produce: NONE became INVALID_RECORD"  # idle ones, say
    assert because(7, 2, pair(0)) == []
