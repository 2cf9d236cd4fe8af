"""How clients proved who they are, on a made-up wire.

The recorded capture is checked in tests/test_captures.py.
"""

import struct
from pathlib import Path
from typing import Any

import pytest

from kdissect.capture.index.index import index_captures
from kdissect.capture.inputs import open_inputs
from kdissect.capture.scan import scan_split
from kdissect.streams.sasl import MOST_BYTES, user_of
from kdissect.tables.build import dissect_batches
from tests.helpers.segment_wire import CLIENT, SERVER, Wire, frame, request, response

HANDSHAKE, AUTHENTICATE, METADATA, API_VERSIONS = 17, 36, 3, 18
REFUSED, UNSUPPORTED = 58, 33
CAPTURES = Path(__file__).parents[2] / "captures"


@pytest.fixture
def wire(tmp_path: Path) -> Wire:
    return Wire(tmp_path / "payload").open()


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def shake(wire: Wire, number: int, mechanism: str, version: int = 1, error: int = 0) -> Wire:
    wire.send(CLIENT, request(HANDSHAKE, version, number, text(mechanism)))
    return wire.send(SERVER, response(number, struct.pack(">hi", error, 1) + text("PLAIN")))


def step(wire: Wire, number: int, error: int = 0, token: bytes = b"secret") -> Wire:
    wire.send(CLIENT, request(AUTHENTICATE, 0, number, struct.pack(">i", len(token)) + token))
    return wire.send(SERVER, response(number, struct.pack(">hhi", error, -1, 0)))


def ask(wire: Wire, number: int) -> Wire:
    wire.send(CLIENT, request(METADATA, 1, number, struct.pack(">i", -1)))
    return wire.send(SERVER, response(number, struct.pack(">iii", 0, -1, 0)))


def told(wire: Wire, splits: int = 1) -> tuple[Any, ...]:
    made, pieces = wire.splits(splits)
    rows = [
        row
        for batches in dissect_batches(pieces, made)
        if "connections" in batches
        for row in batches["connections"].to_pylist()
    ]
    (row,) = rows
    return tuple(row[f"sasl_{name}"] for name in ("mechanism", "outcome", "error", "reauthentications"))


def test_without_sasl_there_is_nothing_to_tell(wire: Wire) -> None:
    assert told(ask(wire, 1).close()) == (None, None, None, None)


@pytest.mark.parametrize("splits", [1, 4])
@pytest.mark.parametrize(
    ("mechanism", "steps"), [("PLAIN", 1), ("OAUTHBEARER", 1), ("SCRAM-SHA-256", 2), ("SCRAM-SHA-512", 2)]
)
def test_a_mechanism_takes_its_steps(mechanism: str, steps: int, splits: int, wire: Wire) -> None:
    shake(wire, 1, mechanism)
    for number in range(steps):
        step(wire, 2 + number)
    assert told(wire, splits) == (mechanism, "succeeded", None, 0)


def test_half_a_scram_is_unfinished(wire: Wire) -> None:
    assert told(step(shake(wire, 1, "SCRAM-SHA-256"), 2)) == ("SCRAM-SHA-256", "unfinished", None, 0)


def test_of_an_unknown_mechanism_the_next_request_tells(wire: Wire) -> None:
    step(step(step(shake(wire, 1, "GSSAPI"), 2), 3), 4)
    assert told(wire) == ("GSSAPI", "unfinished", None, 0)
    assert told(ask(wire, 5)) == ("GSSAPI", "succeeded", None, 0)


def test_errors(wire: Wire) -> None:
    assert told(step(shake(wire, 1, "PLAIN"), 2, REFUSED)) == (
        "PLAIN",
        "failed",
        "SASL_AUTHENTICATION_FAILED",
        0,
    )


def test_a_refused_mechanism(wire: Wire) -> None:
    assert told(shake(wire, 1, "NTLM", error=UNSUPPORTED)) == (
        "NTLM",
        "failed",
        "UNSUPPORTED_SASL_MECHANISM",
        0,
    )


def test_clients_authenticate_again(wire: Wire) -> None:
    for number in range(0, 30, 10):
        ask(step(shake(wire, number, "PLAIN"), number + 1), number + 2)
    assert told(wire, 3) == ("PLAIN", "succeeded", None, 2)
    assert told(step(shake(wire, 40, "PLAIN"), 41, REFUSED)) == (
        "PLAIN",
        "failed",
        "SASL_AUTHENTICATION_FAILED",
        2,
    )


def test_raw_tokens_after_handshake_0(wire: Wire) -> None:
    shake(wire, 1, "PLAIN", version=0)
    wire.send(CLIENT, frame(b"\0user\0password")).send(SERVER, frame(b""))
    assert told(ask(wire, 2)) == ("PLAIN", "succeeded", None, 0)


def test_a_raw_token_answered_by_closing_was_refused(wire: Wire) -> None:
    shake(wire, 1, "PLAIN", version=0)
    wire.send(CLIENT, frame(b"\0user\0password"))
    assert told(wire) == ("PLAIN", "unfinished", None, 0)
    assert told(wire.close()) == ("PLAIN", "failed", None, 0)


def test_an_answer_to_another_request_shows_that_a_token_was_accepted(wire: Wire) -> None:
    """The capture lacks the answer to the token."""
    shake(wire, 1, "PLAIN", version=0)
    wire.send(CLIENT, frame(b"\0user\0password")).lose(SERVER, len(frame(b"")))
    ask(ask(wire, 2), 3).close()
    assert told(wire) == ("PLAIN", "succeeded", None, 0)


def test_the_answer_to_a_token_may_be_captured_before_it(wire: Wire) -> None:
    shake(wire, 1, "PLAIN", version=0)
    wire.send(SERVER, frame(b"")).send(CLIENT, frame(b"\0user\0password"))
    ask(ask(wire, 2), 3).close()
    assert told(wire) == ("PLAIN", "succeeded", None, 0)


@pytest.mark.parametrize("version", [0, 1])
def test_requests_without_an_answer_show_no_success(version: int, wire: Wire) -> None:
    shake(wire, 1, "GSSAPI", version=version)
    if version:
        step(wire, 2)
    else:
        wire.send(CLIENT, frame(b"\x60" + bytes(40)))
    wire.send(CLIENT, request(METADATA, 1, 3, struct.pack(">i", -1))).close()
    assert told(wire) == ("GSSAPI", "unfinished" if version else "failed", None, 0)


def test_the_answer_to_api_versions_shows_no_success(wire: Wire) -> None:
    shake(wire, 1, "PLAIN", version=0)
    wire.send(CLIENT, request(API_VERSIONS, 0, 2)).send(SERVER, response(2, struct.pack(">hi", 0, 0)))
    assert told(wire) == ("PLAIN", "unfinished", None, 0)


def test_gssapi_tokens_without_any_handshake(wire: Wire) -> None:
    wire.send(CLIENT, frame(b"\x60" + bytes(40))).send(SERVER, frame(bytes(30)))
    wire.send(CLIENT, frame(bytes([5, 4]) * 20)).send(SERVER, frame(b""))
    assert told(ask(ask(wire, 7), 8)) == ("GSSAPI", "succeeded", None, 0)


@pytest.mark.parametrize("asked", [True, False], ids=["with-handshake-0", "without"])
@pytest.mark.parametrize("refused", [False, True])
def test_gssapi_as_java_speaks_it(asked: bool, refused: bool, wire: Wire) -> None:
    """As clients of 0.10 and 0.9 do with a broker of 0.10 and its KDC.

    Ids begin with -1, and nothing answers the last token.
    """
    if asked:
        shake(wire, -1, "GSSAPI", version=0)
    wire.send(CLIENT, frame(b"\x60\x82\x02\x9f\x06\x09" + bytes(660)))
    if refused:
        assert told(wire.close()) == ("GSSAPI", "failed", None, 0)
        return
    wire.send(SERVER, frame(b"\5\4\1\xff" + bytes(28))).send(CLIENT, frame(b"\5\4\0\xff" + bytes(37)))
    ask(ask(wire, 0), 1)
    assert told(wire) == ("GSSAPI", "succeeded", None, 0)
    made, pieces = wire.splits()
    rows = [
        batches["connections"].to_pylist()
        for batches in dissect_batches(pieces, made)
        if "connections" in batches
    ]
    ((row,),) = rows
    counted = (
        row["requests"],
        row["responses"],
        row["unanswered"],
        row["orphan_responses"],
        row["skipped_bytes"],
    )
    assert counted == (2 + asked, 2 + asked, 0, 0, 0)


def test_the_recorded_clients() -> None:
    """By client, what each was made to do (tests/lab/scenarios/sasl.py)."""
    found = index_captures(open_inputs([str(CAPTURES / "sasl.pcapng")], "").files)
    by_client: dict[str, list[dict[str, Any]]] = {}
    for batches in dissect_batches([scan_split(split) for split in found.splits], found.splits):
        for row in batches["connections"].to_pylist() if "connections" in batches else []:
            if row["client_id"] and row["sasl_outcome"]:
                by_client.setdefault(row["client_id"], []).append(row)
    mechanisms = {
        "rdkafka-scram-256": "SCRAM-SHA-256",
        "rdkafka-oauth": "OAUTHBEARER",
        "java-scram-512": "SCRAM-SHA-512",
        "java-oauth": "OAUTHBEARER",
        "python-plain": "PLAIN",
        "aio-scram-256": "SCRAM-SHA-256",
    }
    for client, mechanism in mechanisms.items():
        rows = by_client[client]
        assert {(row["sasl_mechanism"], row["sasl_outcome"]) for row in rows} == {(mechanism, "succeeded")}
        again = client != "aio-scram-256"  # aiokafka connects anew instead
        assert (max(row["sasl_reauthentications"] for row in rows) > 0) == again
    for client in ("wrong-plain", "wrong-scram-sha-256", "wrong-scram-sha-512"):
        assert {row["sasl_outcome"] for row in by_client[client]} <= {"failed", "unfinished"}
        assert "SASL_AUTHENTICATION_FAILED" in {row["sasl_error"] for row in by_client[client]}


@pytest.mark.parametrize(
    ("mechanism", "token", "user"),
    [
        ("PLAIN", b"\0billing\0hidden", "billing"),
        ("PLAIN", b"admin\0billing\0hidden", "billing"),
        ("PLAIN", b"billing", None),
        ("PLAIN", b"\0\0hidden", None),
        ("PLAIN", b"\0a\0b\0c", None),
        ("SCRAM-SHA-256", b"n,,n=billing,r=fyko+d2l", "billing"),
        ("SCRAM-SHA-512", b"n,a=admin,n=a=2Cb=3Dc,r=x,tokenauth=true", "a,b=c"),
        ("SCRAM-SHA-512", b"c=biws,r=fyko+d2l,p=dHzbZapWIk4j", None),
        ("OAUTHBEARER", b"n,,\x01auth=Bearer hidden\x01\x01", None),
        (None, b"\0billing\0hidden", None),
        ("PLAIN", b"\0" + b"x" * 1000 + b"\0y", "x" * MOST_BYTES),
        ("PLAIN", b"\0\xff\0y", "�"),
    ],
)
def test_the_user_of_a_token(mechanism: str | None, token: bytes, user: str | None) -> None:
    assert user_of(mechanism, token) == user
