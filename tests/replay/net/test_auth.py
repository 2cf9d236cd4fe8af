"""SASL towards the target: SCRAM by the example of RFC 7677, wrong servers and wrong passwords."""

from collections.abc import Callable
from typing import Any

import pytest

from kdissect.protocol.codec.messages import encode_response
from kdissect.replay.disposition import Disposition
from kdissect.replay.effects import Answer, Part
from kdissect.replay.net.auth import (
    HandshakeFailed,
    authenticate,
    shake_hands,
)
from kdissect.replay.settings import Credentials

# RFC 7677, section 3: user "user", password "pencil", SCRAM-SHA-256.
NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
CLIENT_FINAL = (
    "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    "p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVER_FINAL = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def talk(handshake: Any, answer: Callable[[Part], dict[str, Any]]) -> tuple[list[Part], int]:
    said: list[Part] = []
    part = next(handshake)
    while True:
        said.append(part)
        frame = encode_response(part.key, part.version, {"correlation_id": 1}, answer(part))
        try:
            part = handshake.send(Answer(part, Disposition.ANSWERED, frame))
        except StopIteration as stop:
            return said, stop.value


def server(final: str = SERVER_FINAL, first: str = SERVER_FIRST) -> Callable[[Part], dict[str, Any]]:
    messages = iter([first, final])

    def answer(part: Part) -> dict[str, Any]:
        if part.key == 17:
            return {"error_code": 0, "mechanisms": ["SCRAM-SHA-256"]}
        return {
            "error_code": 0,
            "error_message": None,
            "auth_bytes": next(messages).encode(),
            "session_lifetime_ms": 60,
        }

    return answer


PENCIL = Credentials("SCRAM-SHA-256", "user", "pencil")


def test_scram_says_what_the_rfc_says() -> None:
    said, lifetime = talk(authenticate(PENCIL, lambda: NONCE), server())
    assert [part.body.get("auth_bytes") for part in said[1:]] == [
        f"n,,n=user,r={NONCE}".encode(),
        CLIENT_FINAL.encode(),
    ]
    assert lifetime == 60


@pytest.mark.parametrize(
    ("final", "first", "why"),
    [
        ("v=AAAA", SERVER_FIRST, "does not know the password either"),
        (SERVER_FINAL, SERVER_FIRST.replace("rOpr", "xxxx"), "is not for this login"),
        (SERVER_FINAL, SERVER_FIRST.replace("4096", "1"), "asks for 1 iterations"),
        (SERVER_FINAL, SERVER_FIRST.replace("4096", "2147483647"), "asks for 2147483647 iterations"),
        (SERVER_FINAL, SERVER_FIRST.replace("4096", "4095"), "asks for 4095 iterations"),
        (
            SERVER_FINAL,
            SERVER_FIRST.replace("4096", "1000001"),
            "asks for 1000001 iterations; 4096 to 1000000",
        ),
        (SERVER_FINAL, SERVER_FIRST.replace("4096", "2000000000"), "asks for 2000000000 iterations"),
        (SERVER_FINAL, SERVER_FIRST.replace("4096", "9" * 5000), "cannot be read"),
        (SERVER_FINAL, f"r={NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "is not for this login"),
        (SERVER_FINAL, f"m=ext,{SERVER_FIRST}", "an extension that nobody has defined"),
        (
            SERVER_FINAL,
            SERVER_FIRST.replace("W22ZaJ0SNY7soEsUEjb6gQ==", "AAAA" * 400),
            "a salt of 1200 bytes",
        ),
        (SERVER_FINAL, SERVER_FIRST.replace("W22ZaJ0SNY7soEsUEjb6gQ==", ""), "a salt of 0 bytes"),
        (SERVER_FINAL, SERVER_FIRST.replace("4096", "many"), "cannot be read"),
        (SERVER_FINAL, SERVER_FIRST.replace("s=W", "s=?"), "cannot be read"),
        (SERVER_FINAL, f"r={NONCE}", "cannot be read"),
        (SERVER_FINAL, "", "cannot be read"),
    ],
)
def test_a_false_server_is_found_out(final: str, first: str, why: str) -> None:
    with pytest.raises(HandshakeFailed, match=why):
        talk(authenticate(PENCIL, lambda: NONCE), server(final, first))


def test_a_first_message_that_is_no_text_is_refused() -> None:
    login = authenticate(PENCIL, lambda: NONCE)
    answers = iter([{"error_code": 0, "mechanisms": []}, {"error_code": 0, "auth_bytes": b"r=\xff"}])
    with pytest.raises(HandshakeFailed, match="cannot be read"):
        talk(login, lambda _part: next(answers))


def test_plain_and_its_refusal() -> None:
    def answer(part: Part) -> dict[str, Any]:
        if part.key == 17:
            return {"error_code": 0, "mechanisms": ["PLAIN"]}
        wrong = part.body["auth_bytes"] != b"\0me\0right"
        return {
            "error_code": 58 if wrong else 0,
            "error_message": "no" if wrong else None,
            "auth_bytes": b"",
            "session_lifetime_ms": 0,
        }

    said, _ = talk(authenticate(Credentials("PLAIN", "me", "right"), lambda: ""), answer)
    assert len(said) == 2
    with pytest.raises(HandshakeFailed, match="as me: no") as failed:
        talk(authenticate(Credentials("PLAIN", "me", "wrong secret"), lambda: ""), answer)
    assert "wrong secret" not in str(failed.value)


def test_the_words_of_a_target_are_not_longer_than_a_sentence() -> None:
    def answer(part: Part) -> dict[str, Any]:
        if part.key == 17:
            return {"error_code": 0, "mechanisms": ["PLAIN"]}
        return {"error_code": 58, "error_message": "x" * 30_000, "auth_bytes": b"", "session_lifetime_ms": 0}

    with pytest.raises(HandshakeFailed) as failed:
        talk(authenticate(Credentials("PLAIN", "me", "right"), lambda: ""), answer)
    assert len(str(failed.value)) < 400


def test_an_old_broker_is_asked_again() -> None:
    def answer(part: Part) -> dict[str, Any]:
        ranges = [{"api_key": 3, "min_version": 0, "max_version": 2}]
        return {"error_code": 35 if part.version else 0, "api_keys": ranges}

    learnt: list[dict[str, Any]] = []
    # The body of error 35 is of version 0 whatever was asked (KIP-511).
    handshake = shake_hands(None, learnt.append, lambda: "")
    part = next(handshake)
    frame = encode_response(18, 0, {"correlation_id": 1}, answer(part))
    part = handshake.send(Answer(part, Disposition.ANSWERED, frame))
    assert part.version == 0
    with pytest.raises(StopIteration):
        handshake.send(
            Answer(part, Disposition.ANSWERED, encode_response(18, 0, {"correlation_id": 2}, answer(part)))
        )
    assert learnt[0]["api_keys"][0]["max_version"] == 2
