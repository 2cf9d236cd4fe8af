"""Kafka 0.7 in a dump: a capture made by hand, from its packets to the text that people read."""

import json
import re
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kdissect.cli.main import main
from kdissect.errors import ExitCode
from kdissect.protocol.kafka07.message_codec import RequestType
from tests.helpers.handmade_capture import write_capture
from tests.helpers.kafka07_messages import encode_kafka07_request, encode_kafka07_response, set_message

GOLDEN = Path(__file__).parent / "golden" / "old.txt"


def stored(data: bytes) -> bytes:
    """Compress as gzip without compressing, so that the bytes are the same with every zlib."""
    front = b"\x1f\x8b\x08\0\0\0\0\0\0\xff\x01" + struct.pack("<HH", len(data), len(data) ^ 0xFFFF)
    return front + data + struct.pack("<II", zlib.crc32(data), len(data))


PLAIN = set_message(b"one", 0) + set_message(b"two", 0)
ZIPPED = set_message(stored(PLAIN), 1)
BROKEN = PLAIN[:-1] + b"!" + PLAIN[:9]
PART = {"topic": "orders", "partition": 3, "offset": 4711, "max_size": 307200}


def asked(kind: RequestType, body: dict[str, Any]) -> tuple[bool, bytes]:
    return True, encode_kafka07_request(kind, body)


def told(kind: RequestType, code: int, body: dict[str, Any]) -> tuple[bool, bytes]:
    return False, encode_kafka07_response(kind, code, body)


TALK = (
    asked(RequestType.PRODUCE, {"topic": "orders", "partition": 3, "messages": ZIPPED}),
    asked(RequestType.FETCH, PART),
    told(RequestType.FETCH, 0, {"messages": ZIPPED + BROKEN}),
    asked(RequestType.MULTI_FETCH, {"requests": [PART, PART | {"topic": "bills"}]}),
    told(
        RequestType.MULTI_FETCH,
        0,
        {"responses": [{"error_code": 0, "messages": PLAIN}, {"error_code": 3, "messages": b""}]},
    ),
    asked(RequestType.OFFSETS, {"topic": "orders", "partition": 3, "time": -2, "max_number": 2}),
    told(RequestType.OFFSETS, 0, {"offsets": [9000, 0]}),
    asked(RequestType.FETCH, PART),
    told(RequestType.FETCH, 1, {"messages": b""}),
)


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_capture(tmp_path_factory.mktemp("old") / "old.pcap", TALK)


Dump = Callable[..., list[str]]


@pytest.fixture
def dump(capture: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> Dump:
    def run(*arguments: str) -> list[str]:
        code = main(["dump", *arguments, str(capture)])
        lines = capfdbinary.readouterr().out.decode().splitlines()
        assert code == (ExitCode.DONE if lines else ExitCode.NOTHING_FOUND)
        return lines

    return run


def test_text(dump: Dump) -> None:
    assert "\n".join(dump("--records")) + "\n" == GOLDEN.read_text()


def test_objects(dump: Dump) -> None:
    produce, fetch, several, offsets, failed = map(json.loads, dump("--format", "jsonl"))
    assert (produce["api_name"], produce["status"]) == ("Produce", "no_response_expected")
    assert produce["response"] is None
    for each in (produce, fetch, several, offsets, failed):
        assert (each["api_version"], each["correlation_id"], each["client_id"]) == (None, None, None)
    assert fetch["request"] == {
        "header": {"request_type": 1, "_request_type": "Fetch"},
        "body": PART,
    }
    held = fetch["response"]["body"]["_messages"]
    assert fetch["response"]["body"]["messages"] is None
    assert [batch.get("_crc") for batch in held["batches"]] == [None, None, "wrong", None]
    assert held["batches"][-1] == {"cut": "9 bytes of a message"}
    assert not re.search("records|b25l", json.dumps(held))
    assert [part["_error_code"] for part in several["response"]["body"]["responses"]] == [
        "NONE",
        "WRONG_PARTITION",
    ]
    assert offsets["response"]["body"] == {"offsets": [9000, 0]}
    assert failed["response"]["header"] == {"error_code": 1, "_error_code": "OFFSET_OUT_OF_RANGE"}


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (("--api", "Fetch"), ["Fetch", "MultiFetch", "Fetch"]),
        (("--api", "Produce"), ["Produce"]),
        (("--api", "ListOffsets"), ["Offsets"]),
        (("--api", "Metadata"), []),
        (("--topic", "bil*"), ["MultiFetch"]),
        (("--error", "any"), ["MultiFetch", "Fetch"]),
        (("--error", "1"), ["Fetch"]),
        (("--client", "*"), []),
    ],
)
def test_choices(dump: Dump, arguments: tuple[str, ...], names: list[str]) -> None:
    assert [json.loads(line)["api_name"] for line in dump("--format", "jsonl", *arguments)] == names
