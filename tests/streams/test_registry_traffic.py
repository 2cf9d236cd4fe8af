"""HTTP with a schema registry in captures: what is found whatever is lost, cut or hostile around it."""

import json
import random
from collections.abc import Container
from pathlib import Path

import pytest

from kdissect.capture.index.index import index_captures
from kdissect.capture.inputs import open_inputs
from kdissect.exchanges.prescan import scan_pieces
from kdissect.streams import registry_traffic
from kdissect.streams.registry_traffic import RegistryTraffic
from tests.helpers.handmade_capture import write_payload

Talk = list[tuple[bool, bytes]]
SCHEMA = json.dumps({"type": "record", "name": "Padded", "fields": [], "doc": "x" * 3000})


def asked(number: int) -> bytes:
    return b"GET /schemas/ids/%d HTTP/1.1\r\nHost: registry\r\n\r\n" % number


def answered(number: int) -> bytes:
    body = json.dumps({"schema": SCHEMA, "number": number}).encode()
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body


def in_packets(data: bytes, size: int = 1000) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


def conversation(count: int) -> Talk:
    talk: Talk = []
    for number in range(count):
        talk.append((True, asked(number)))
        talk += [(False, part) for part in in_packets(answered(number))]
    return talk


def found(path: Path, talk: Talk, left_out: Container[int] = (), split_bytes: int = 1 << 20) -> list[str]:
    write_payload(path, talk, left_out)
    splits = index_captures(open_inputs([str(path)], "").files, split_bytes).splits
    traffic = RegistryTraffic(splits)
    for pieces in scan_pieces(splits, ()):
        traffic.feed(pieces)
    return sorted(traffic.registry().objects)


def paths(*numbers: int) -> list[str]:
    return [f"/schemas/ids/{number}" for number in numbers]


@pytest.mark.parametrize("split_bytes", [1 << 20, 3000])
def test_a_conversation_in_one_split_and_in_many(tmp_path: Path, split_bytes: int) -> None:
    assert found(tmp_path / "x.pcap", conversation(4), split_bytes=split_bytes) == paths(0, 1, 2, 3)


def test_a_lost_packet_costs_one_schema(tmp_path: Path) -> None:
    talk = conversation(4)
    answers = [number for number, (is_client, _) in enumerate(talk) if not is_client]
    per_answer = len(answers) // 4
    for lost in (answers[per_answer], answers[per_answer + 1], answers[2 * per_answer - 1]):
        assert found(tmp_path / "x.pcap", talk, {lost}) == paths(0, 2, 3)
    requests = [number for number, (is_client, _) in enumerate(talk) if is_client]
    assert found(tmp_path / "x.pcap", talk, {requests[2]}) == paths(0, 1, 3)
    assert found(tmp_path / "x.pcap", talk, range(requests[1])) == paths(1, 2, 3)


def test_requests_in_several_packets_and_behind_others(tmp_path: Path) -> None:
    other = [
        (True, b"GET /config HTTP/1.1\r\n\r\n"),
        (False, b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n"),
    ]
    body = json.dumps({"schema": SCHEMA}).encode()
    post = b"POST /subjects/a/versions HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    reply = b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n{"id": 7}\r\n0\r\n\r\n'
    talk = [
        *other * 5,
        *((True, part) for part in in_packets(post, 700)),
        (False, reply[:20]),
        (False, reply[20:]),
    ]
    assert found(tmp_path / "x.pcap", talk) == paths(7)


def test_other_connections_are_not_held(tmp_path: Path) -> None:
    web = [(True, b"GET /index.html HTTP/1.1\r\n\r\n"), (False, b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 900)]
    path = write_payload(tmp_path / "x.pcap", web * 20)
    splits = index_captures(open_inputs([str(path)], "").files, 1 << 20).splits
    traffic = RegistryTraffic(splits)
    for pieces in scan_pieces(splits, ()):
        traffic.feed(pieces)
    assert not traffic._held
    assert traffic.registry().is_empty


def test_what_is_held_has_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_traffic, "MOST_DIRECTION", 2 * len(answered(0)) + 10)
    assert found(tmp_path / "x.pcap", conversation(4)) == paths(0, 1)
    monkeypatch.setattr(registry_traffic, "MOST_CONNECTIONS", 0)
    assert found(tmp_path / "x.pcap", conversation(4)) == []


def test_hostile_conversations_end(tmp_path: Path) -> None:
    chance = random.Random(5)
    talk = conversation(3)
    for _ in range(15):
        damaged = [(side, bytearray(payload)) for side, payload in talk]
        for _ in range(6):
            _, payload = chance.choice(damaged)
            payload[chance.randrange(len(payload))] = chance.randrange(256)
        lost = {chance.randrange(len(talk)) for _ in range(3)}
        schemas = found(tmp_path / "x.pcap", [(side, bytes(one)) for side, one in damaged], lost)
        assert len(schemas) <= 6
    many = [(True, b"GET /schemas/ids/1 HTTP/1.1\r\nX: y")] * 300 + [(False, b"x")]
    assert found(tmp_path / "x.pcap", many) == []
