"""Raw SASL tokens stand in a dump in their place, and nothing of them is shown unasked."""

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kdissect.cli.main import main
from kdissect.errors import ExitCode
from kdissect.protocol.codec.messages import encode_request, encode_response
from tests.helpers.handmade_capture import write_capture

PASSWORD = b"\0alice\0hunter2"


def asked(key: int, version: int, correlation: int, body: dict[str, Any]) -> tuple[bool, bytes]:
    header = {"request_api_key": key, "request_api_version": version, "correlation_id": correlation}
    return True, encode_request(header | {"client_id": "me"}, body)


def told(key: int, version: int, correlation: int, body: dict[str, Any]) -> tuple[bool, bytes]:
    return False, encode_response(key, version, {"correlation_id": correlation}, body)


METADATA = (
    asked(3, 1, 2, {"topics": []}),
    told(3, 1, 2, {"brokers": [], "controller_id": 1, "topics": []}),
)
PLAIN = (
    asked(17, 0, 1, {"mechanism": "PLAIN"}),
    told(17, 0, 1, {"error_code": 0, "mechanisms": ["PLAIN"]}),
    (True, PASSWORD),
    (False, b""),
    *METADATA,
)
FIRST, SECOND = b"\x60\x48" + b"t" * 70, b"\x01" * 33
GSSAPI = ((True, FIRST), (False, b"\x60" + b"u" * 50), (True, SECOND), (False, b"\x02" * 9), *METADATA)

Dump = Callable[..., str]


@pytest.fixture
def dump(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> Dump:
    def run(talk: tuple[tuple[bool, bytes], ...], *arguments: str) -> str:
        code = main(["dump", *arguments, str(write_capture(tmp_path / "sasl.pcap", talk))])
        text = capfdbinary.readouterr().out.decode()
        assert code == (ExitCode.DONE if text else ExitCode.NOTHING_FOUND)
        return text

    return run


def test_tokens_after_a_handshake(dump: Dump) -> None:
    handshake, token, metadata = map(json.loads, dump(PLAIN, "--format", "jsonl").splitlines())
    assert [each["status"] for each in (handshake, token, metadata)] == ["answered", "sasl_token", "answered"]
    assert [each["ordinal"] for each in (handshake, token, metadata)] == [0, None, 1]
    assert (token["api_name"], token["api_key"], token["sasl_mechanism"]) == ("SaslToken", None, "PLAIN")
    assert (token["request_bytes"], token["response_bytes"]) == (len(PASSWORD), 0)
    assert token["latency_ns"] == 1_000_000
    assert (token["request_packet"], token["response_packet"]) == (6, 7)
    assert token["request"] == {"header": {}, "body": {"token": None, "_token": "redacted"}}
    assert token["response"] == {"header": {}, "body": {"token": ""}}


def test_gssapi_tokens_without_any_handshake(dump: Dump) -> None:
    said = [json.loads(line) for line in dump(GSSAPI, "--format", "jsonl").splitlines()]
    assert [each["api_name"] for each in said] == ["SaslToken", "SaslToken", "Metadata"]
    assert [(each["request_bytes"], each["response_bytes"]) for each in said[:2]] == [(72, 51), (33, 9)]
    assert [each["sasl_mechanism"] for each in said[:2]] == ["GSSAPI", "GSSAPI"]


def test_a_token_without_answer(dump: Dump) -> None:
    said = [json.loads(line) for line in dump(PLAIN[:3], "--format", "jsonl").splitlines()]
    assert said[1]["status"] == "sasl_token"
    assert (said[1]["response"], said[1]["response_bytes"], said[1]["latency_ns"]) == (None, None, None)


@pytest.mark.parametrize("arguments", [(), ("--brief",), ("--format", "jsonl"), ("--records",)])
def test_no_token_is_shown_unasked(dump: Dump, arguments: tuple[str, ...]) -> None:
    shown = dump(PLAIN, *arguments)
    assert "SaslToken" in shown
    assert "hunter2" not in shown
    assert base64.b64encode(PASSWORD).decode() not in shown
    assert PASSWORD.hex() not in shown


def test_the_only_way_to_see_tokens(dump: Dump) -> None:
    token = json.loads(dump(PLAIN, "--format", "jsonl", "--show-secrets").splitlines()[1])
    assert base64.b64decode(token["request"]["body"]["token"]) == PASSWORD
    assert "hunter2" in dump(PLAIN, "--show-secrets").replace("\\x00", "") or PASSWORD.hex() in dump(
        PLAIN, "--show-secrets"
    )


def test_tokens_answer_to_filters_that_fit_them(dump: Dump) -> None:
    assert "SaslToken" in dump(PLAIN, "--brief", "--connection", "10.0.0.1:40000")
    assert "SaslToken" in dump(PLAIN, "--brief", "--slower-than", "1us")
    assert "SaslToken" not in dump(PLAIN, "--brief", "--slower-than", "1s")
    assert "SaslToken" not in dump(PLAIN, "--brief", "--api", "Metadata")
    assert "SaslToken" not in dump(PLAIN, "--brief", "--client", "*")
