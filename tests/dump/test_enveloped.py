"""Requests inside an Envelope are shown, chosen by and redacted like everything else."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kdissect.cli.main import main
from kdissect.errors import ExitCode
from kdissect.protocol.codec.messages import encode_request, encode_response
from tests.helpers.handmade_capture import write_capture

CLUSTER_LIFE = Path(__file__).parents[2] / "captures" / "cluster-life.pcapng"


def carried(key: int, version: int, asked: dict[str, Any], told: dict[str, Any]) -> list[tuple[bool, bytes]]:
    """A request that a broker forwards in an Envelope, and its answer."""
    header = {"request_api_key": key, "request_api_version": version, "correlation_id": 9, "client_id": "app"}
    outer = {"request_api_key": 58, "request_api_version": 0, "correlation_id": 1, "client_id": "broker"}
    inner = encode_request(header, asked)
    answer = encode_response(key, version, {"correlation_id": 9}, told)
    body = {"request_data": inner, "request_principal": None, "client_host_address": b"\x7f\0\0\1"}
    told = {"response_data": answer, "error_code": 0}
    return [(True, encode_request(outer, body)), (False, encode_response(58, 0, {"correlation_id": 1}, told))]


DELETE = carried(
    20,
    4,
    {"topic_names": ["orders"], "timeout_ms": 1},
    {"throttle_time_ms": 0, "responses": [{"name": "orders", "error_code": 3}]},
)
CREATE_TOKEN = carried(
    38,
    1,
    {"renewers": [], "max_lifetime_ms": 1},
    {
        "error_code": 0,
        "principal_type": "User",
        "principal_name": "a",
        "issue_timestamp_ms": 1,
        "expiry_timestamp_ms": 2,
        "max_timestamp_ms": 3,
        "token_id": "id",
        "hmac": b"hush-hush",
        "throttle_time_ms": 0,
    },
)

Dump = Callable[..., str]


@pytest.fixture
def dump(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> Dump:
    def run(talk: list[tuple[bool, bytes]], *arguments: str) -> str:
        code = main(["dump", *arguments, str(write_capture(tmp_path / "it.pcap", talk))])
        text = capfdbinary.readouterr().out.decode()
        assert code == (ExitCode.DONE if text else ExitCode.NOTHING_FOUND)
        return text

    return run


def test_both_messages_inside_are_decoded(dump: Dump) -> None:
    said = json.loads(dump(DELETE, "--format", "jsonl"))
    inner = said["request"]["body"]["_request_data"]
    assert inner["header"]["request_api_key"] == 20
    assert inner["header"]["client_id"] == "app"
    assert inner["body"]["topic_names"] == ["orders"]
    (answer,) = said["response"]["body"]["_response_data"]["body"]["responses"]
    assert (answer["name"], answer["_error_code"]) == ("orders", "UNKNOWN_TOPIC_OR_PARTITION")
    assert "UNKNOWN_TOPIC_OR_PARTITION" in dump(DELETE)


@pytest.mark.parametrize("chosen", [("--topic", "ord*"), ("--error", "3"), ("--error", "any")])
def test_filters_look_inside(dump: Dump, chosen: tuple[str, str]) -> None:
    assert "orders" in dump(DELETE, "--brief", *chosen)
    assert not dump(CREATE_TOKEN, "--brief", *chosen)


@pytest.mark.parametrize("arguments", [(), ("--format", "jsonl")])
def test_secrets_inside_stay_inside(dump: Dump, arguments: tuple[str, ...]) -> None:
    shown = dump(CREATE_TOKEN, *arguments)
    assert "redacted" in shown
    assert "hush-hush" not in shown
    assert "aHVzaC1odXNo" not in shown
    assert b"hush-hush".hex() not in shown
    assert "hush-hush" in dump(CREATE_TOKEN, "--show-secrets")


def test_what_real_brokers_forward(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["dump", "--format", "jsonl", "--api", "Envelope", str(CLUSTER_LIFE)]) == 0
    said = [json.loads(line) for line in capfdbinary.readouterr().out.splitlines()]
    assert len(said) >= 16
    for each in said:
        asked, told = each["request"]["body"]["_request_data"], each["response"]["body"]["_response_data"]
        assert asked["header"]["correlation_id"] == told["header"]["correlation_id"]
        assert asked["body"]
        assert told["body"]
        assert "fault" not in asked
        assert "fault" not in told
    assert {19, 44, 51} <= {
        each["request"]["body"]["_request_data"]["header"]["request_api_key"] for each in said
    }
