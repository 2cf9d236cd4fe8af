"""Captures told as stories: connections, messages and closes at milliseconds, written as real packets.

    story = Story()
    consumer = story.connect("10.1.0.1", client_id="billing-1")
    consumer.call(10, 500, ApiKey.FETCH, 4, {"max_wait_ms": 500, ...}, {"responses": []})
    story.write(path)

Messages are dicts that the codec encodes. Bytes that are no messages are sent with `Line.send`. Packets stand
in the order of time, and each direction counts its sequence numbers in that order.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kdissect.protocol.codec.messages import encode_request, encode_response
from kdissect.protocol.records.batch_summary import SMALLEST_RECORD
from kdissect.protocol.records.batches import HEADER, HEADER_BYTES, PREFIX_BYTES, BatchHeader
from tests.helpers.crafted_packets import ACK, FIN, PUSH, RST, SYN, Packet, ethernet, pcap, tcp
from tests.helpers.segment_wire import frame

T0_MS = 1_750_000_000_000
FIRST_PORT = 40_000
FLAGS = {"F": FIN, "S": SYN, "R": RST, "P": PUSH, "A": ACK}


def batch(base_offset: int, count: int = 1, at_ms: float = 0) -> bytes:
    """Return a record batch created at a time of the story; its records are nulls and have no names."""
    body = bytes(SMALLEST_RECORD * count)
    created = round(T0_MS + at_ms)
    header = BatchHeader(
        base_offset=base_offset,
        batch_length=HEADER_BYTES - PREFIX_BYTES + len(body),
        partition_leader_epoch=0,
        magic=2,
        crc=0,
        attributes=0,
        last_offset_delta=count - 1,
        base_timestamp=created,
        max_timestamp=created,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=count,
    )
    return HEADER.pack(*header) + body


@dataclass
class Line:
    """One connection, and what is sent on it: (time in ms, from the client, flags, payload)."""

    client: tuple[str, int]
    server: tuple[str, int]
    client_id: str
    sent: list[tuple[float, bool, str, bytes]] = field(default_factory=list)
    calls: int = 0

    def send(self, at_ms: float, from_client: bool, payload: bytes, flags: str = "PA") -> None:
        """Send bytes, or a packet with other flags."""
        self.sent.append((at_ms, from_client, flags, payload))

    def ask(self, at_ms: float, api_key: int, version: int, body: dict[str, Any]) -> int:
        """Send a request; return its correlation id."""
        self.calls += 1
        header = {"request_api_key": api_key, "request_api_version": version, "client_id": self.client_id}
        self.send(at_ms, True, frame(encode_request(header | {"correlation_id": self.calls}, body)))
        return self.calls

    def call(
        self,
        at_ms: float,
        took_ms: float,
        api_key: int,
        version: int,
        request: dict[str, Any],
        response: dict[str, Any],
    ) -> None:
        """Send a request and its response."""
        number = self.ask(at_ms, api_key, version, request)
        answer = encode_response(api_key, version, {"correlation_id": number}, response)
        self.send(at_ms + took_ms, False, frame(answer))

    def close(self, at_ms: float, *, by_client: bool = True, reset: bool = False) -> None:
        """End the connection, by a FIN of both or by one reset."""
        self.send(at_ms, by_client, b"", "RA" if reset else "FA")
        if not reset:
            self.send(at_ms + 0.1, not by_client, b"", "FA")
            self.send(at_ms + 0.2, by_client, b"", "A")


@dataclass
class Story:
    """Connections on their way into one capture."""

    lines: list[Line] = field(default_factory=list)

    def connect(
        self,
        client: str = "10.1.0.1",
        server: tuple[str, int] = ("10.0.0.1", 9092),
        *,
        client_id: str = "tester",
        at_ms: float = 0.0,
        accepted: bool = True,
    ) -> Line:
        """Open a connection with a handshake, or let the server refuse it."""
        line = Line((client, FIRST_PORT + len(self.lines)), server, client_id)
        line.send(at_ms, True, b"", "S")
        line.send(at_ms + 0.1, False, b"", "SA" if accepted else "RA")
        if accepted:
            line.send(at_ms + 0.2, True, b"", "A")
        self.lines.append(line)
        return line

    def write(self, path: Path) -> str:
        """Write the packets; return the path as text."""
        packets = [(at_ms, packet) for line in self.lines for at_ms, packet in _packets(line)]
        ordered = sorted(packets, key=lambda one: one[0])
        path.write_bytes(pcap(_recorded(at_ms, packet) for at_ms, packet in ordered))
        return str(path)


def _recorded(at_ms: float, packet: bytes) -> Packet:
    return *divmod(round((T0_MS + at_ms) * 1000), 1_000_000), packet


def _packets(line: Line) -> list[tuple[float, bytes]]:
    following = {True: 1000, False: 500}
    packets = []
    for at_ms, from_client, flags, payload in sorted(line.sent, key=lambda one: one[0]):
        ends = (line.client, line.server) if from_client else (line.server, line.client)
        segment = tcp(
            ends[0][0],
            ends[1][0],
            (ends[0][1], ends[1][1]),
            payload,
            seq=following[from_client],
            ack=following[not from_client] if "A" in flags else 0,
            flags=sum(FLAGS[flag] for flag in flags),
        )
        packets.append((at_ms, ethernet(segment)))
        following[from_client] += len(payload) + ("S" in flags) + ("F" in flags)
    return packets
