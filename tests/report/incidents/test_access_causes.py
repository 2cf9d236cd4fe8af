"""Causes that lie with who a client is: each is named where it is told, and not for what looks like it."""

from pathlib import Path

import pytest

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.error_codes import ErrorCode
from kdissect.report.incidents.access_causes import ACCESS_CAUSES
from tests.helpers.told_capture import Story
from tests.helpers.told_groups import analyzed, background, causes_of, produce, refused


def wrong_password(story):
    for number in range(4):
        line = story.connect("10.1.0.2", client_id="bad", at_ms=10_000 + 2000 * number)
        at_ms = 10_001 + 2000 * number
        line.call(at_ms, 1, ApiKey.SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"}, {"mechanisms": ["PLAIN"]})
        refusal = {"error_code": ErrorCode.SASL_AUTHENTICATION_FAILED, "auth_bytes": b""}
        line.call(at_ms + 2, 1, ApiKey.SASL_AUTHENTICATE, 1, {"auth_bytes": b"\0bob\0x"}, refusal)
        line.close(at_ms + 10, by_client=False)


def logs_in_too_often(story):
    line = story.connect("10.1.0.2", client_id="eager", at_ms=10_000)
    line.call(10_001, 1, ApiKey.SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"}, {"mechanisms": ["PLAIN"]})
    line.call(10_003, 1, ApiKey.SASL_AUTHENTICATE, 1, {"auth_bytes": b"\0bob\0x"}, {"auth_bytes": b""})
    refusal = {"error_code": ErrorCode.ILLEGAL_SASL_STATE, "mechanisms": []}
    for number in range(6):
        line.call(10_100 + 300 * number, 1, ApiKey.SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"}, refusal)


def right_password(story):
    line = story.connect("10.1.0.2", client_id="good", at_ms=10_000)
    line.call(10_001, 1, ApiKey.SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"}, {"mechanisms": ["PLAIN"]})
    line.call(10_003, 1, ApiKey.SASL_AUTHENTICATE, 1, {"auth_bytes": b"\0bob\0x"}, {"auth_bytes": b""})
    produce(line, 10_010)


def without_login(story, times=6):
    """A client whose connections are closed at its first request after ApiVersions."""
    for number in range(times):
        at_ms = 10_000 + 1_000 * number
        line = story.connect("10.1.0.2", ("10.0.0.1", 9094), client_id="plain", at_ms=at_ms)
        line.call(at_ms + 1, 1, ApiKey.API_VERSIONS, 0, {}, {"error_code": 0, "api_keys": []})
        line.ask(at_ms + 3, ApiKey.METADATA, 9, {"topics": []})
        line.close(at_ms + 4, by_client=False)


def server_that_stops(story):
    without_login(story, times=2)


def wrong_mechanism(story):
    refusal = {"error_code": ErrorCode.UNSUPPORTED_SASL_MECHANISM, "mechanisms": ["PLAIN"]}
    for number in range(4):
        at_ms = 10_000 + 2_000 * number
        line = story.connect("10.1.0.2", client_id="bad", at_ms=at_ms)
        line.call(at_ms + 1, 1, ApiKey.SASL_HANDSHAKE, 1, {"mechanism": "OAUTHBEARER"}, refusal)
        line.close(at_ms + 5, by_client=False)


def login_that_expires(story, age_ms=5_000, lives=4, cut=True):
    """A client that never logs in again on a connection, and sends a request 20 ms before each end."""
    for number in range(lives):
        at_ms = 4_000 + (age_ms + 300) * number
        line = story.connect("10.1.0.2", client_id="forgetful", at_ms=at_ms)
        line.call(at_ms + 1, 1, ApiKey.SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"}, {"mechanisms": ["PLAIN"]})
        line.call(at_ms + 3, 1, ApiKey.SASL_AUTHENTICATE, 1, {"auth_bytes": b"\0bob\0x"}, {"auth_bytes": b""})
        for wait_ms in range(100, age_ms - 100, 200):
            produce(line, at_ms + wait_ms)
        if cut:
            line.ask(at_ms + age_ms, ApiKey.METADATA, 9, {"topics": []})
        line.close(at_ms + age_ms + 2, by_client=False)


def idle_connections_that_a_server_closes(story):
    login_that_expires(story, cut=False)


CASES = {
    "session_expired": (login_that_expires, idle_connections_that_a_server_closes),
    "mechanism_refused": (wrong_mechanism, wrong_password),
    "wrong_password": (wrong_password, right_password),
    "login_missing": (without_login, server_that_stops),
    "login_out_of_turn": (logs_in_too_often, wrong_password),
    "missing_right": (refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED), refused(0)),
}


def test_every_cause_has_a_case():
    assert {cause.name for cause in ACCESS_CAUSES} == CASES.keys()


@pytest.mark.parametrize("name", CASES)
def test_a_cause_comes_first_in_its_own_story(name: str, tmp_path: Path) -> None:
    assert causes_of(CASES[name][0], tmp_path)[0] == name


@pytest.mark.parametrize("name", CASES)
def test_what_looks_like_a_cause_is_not_it(name: str, tmp_path: Path) -> None:
    assert name not in causes_of(CASES[name][1], tmp_path)


def test_a_wrong_password_names_the_mechanism_and_how_often(tmp_path: Path) -> None:
    story = Story()
    background(story)
    wrong_password(story)
    (incident, *_) = analyzed(story, tmp_path).incidents
    assert incident.headline.startswith(
        "bad at 10.1.0.2 failed to authenticate (SASL PLAIN; user bob): 4 requests refused with "
        "SASL_AUTHENTICATION_FAILED from "
    )


def test_clients_that_lose_a_right_at_one_time_are_one_incident(tmp_path: Path) -> None:
    story = Story()
    background(story)
    for number, name in enumerate(("writer", "other")):
        line = story.connect(f"10.1.0.{2 + number}", client_id=name)
        for at_ms in range(100 + number, 29_000, 400):
            gone = at_ms >= 12_000 + 2_000 * number
            produce(line, at_ms, topic="audit", error=ErrorCode.TOPIC_AUTHORIZATION_FAILED if gone else 0)
    (incident,) = analyzed(story, tmp_path).incidents
    assert (incident.cause, incident.subject.name) == ("missing_right", "audit")
    assert incident.headline.startswith("2 clients may not use topic audit since ")
    assert "of other at 10.1.0.3, writer at 10.1.0.2 not authorized" in incident.headline


def test_a_wrong_password_is_not_hidden_by_logins_out_of_turn(tmp_path: Path) -> None:
    story = Story()
    background(story)
    line = story.connect("10.1.0.2", client_id="bad", at_ms=2_000)
    refusal = {"error_code": ErrorCode.ILLEGAL_SASL_STATE, "mechanisms": []}
    for number in range(3):
        line.call(2_100 + 300 * number, 1, ApiKey.SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"}, refusal)
    wrong_password(story)
    (incident, *_) = analyzed(story, tmp_path).incidents
    assert incident.cause == "wrong_password"


def test_clients_whose_logins_begin_to_fail_together_are_one_incident(tmp_path: Path) -> None:
    """A client that logs in out of turn meanwhile has an incident of its own, which does not take theirs."""
    story = Story()
    background(story)
    for number in range(2):
        for attempt in range(8):
            at_ms = 12_000 + 1_500 * number + 1_000 * attempt
            line = story.connect(f"10.1.0.{2 + number}", client_id=f"app-{number}", at_ms=at_ms)
            request, response = {"mechanism": "PLAIN"}, {"mechanisms": ["PLAIN"]}
            line.call(at_ms + 1, 1, ApiKey.SASL_HANDSHAKE, 1, request, response)
            refusal = {"error_code": ErrorCode.SASL_AUTHENTICATION_FAILED, "auth_bytes": b""}
            line.call(at_ms + 3, 1, ApiKey.SASL_AUTHENTICATE, 1, {"auth_bytes": b"\0bob\0x"}, refusal)
            line.close(at_ms + 10, by_client=False)
    logs_in_too_often(story)
    first, *others = analyzed(story, tmp_path).incidents
    assert first.cause == "wrong_password"
    assert first.headline.startswith("2 clients fail to authenticate since ")
    alike = "(SASL PLAIN; user bob)"
    who = f"app-0 at 10.1.0.2 {alike}, app-1 at 10.1.0.3 {alike}"
    assert first.headline.endswith(f", 16 times in all: {who}")
    assert [one.cause for one in others] == ["login_out_of_turn"]


def test_a_server_that_keeps_a_client_out_is_not_frozen_where_the_capture_lacks_its_ends(tmp_path) -> None:
    story = Story()
    without_login(story)
    for number in range(2):
        line = story.connect("10.1.0.2", ("10.0.0.1", 9094), client_id="plain", at_ms=15_100 + number)
        line.ask(15_110 + number, ApiKey.METADATA, 9, {"topics": []})
    later = story.connect("10.1.0.2", ("10.0.0.1", 9094), client_id="plain", at_ms=20_000)
    later.call(20_001, 1, ApiKey.API_VERSIONS, 0, {}, {"error_code": 0, "api_keys": []})
    causes = [one.cause for one in analyzed(story, tmp_path).incidents]
    assert "login_missing" in causes
    assert "broker_frozen" not in causes
