"""Exchanges made by hand, and what stands for the reader that would have found them in a capture."""

from kdissect.exchanges.exchange import CapturedFrame
from kdissect.protocol.codec.messages import encode_request, encode_response
from kdissect.streams.flow_state import PACKET_BITS

SECOND = 10**9
REQUEST = encode_request(
    {"request_api_key": 12, "request_api_version": 0, "correlation_id": 9, "client_id": "m\x1b"},
    {"group_id": "g", "generation_id": 4, "member_id": "m"},
)
RESPONSE = encode_response(12, 0, {"correlation_id": 9}, {"error_code": 27})


class StubReader:
    """Answers for a reader of two files: one connection, some.pcap and other.pcap."""

    def identity(self, connection: int) -> int:
        return 42

    def addresses(self, connection: int) -> tuple[str, str]:
        return "10.0.0.1:5000", "[::1]:9092"

    def file_name(self, split: int) -> str:
        return "other.pcap" if split else "some.pcap"

    def mechanism(self, connection: int) -> str | None:
        return "PLAIN"


def frame(data: bytes, first_ns: int, lost: int = 0, split: int = 0) -> CapturedFrame:
    """Return a frame of which the capture lost the last bytes; its first packet is number 7 of its file."""
    packet = split << PACKET_BITS | 7
    return CapturedFrame(data[: len(data) - lost], len(data), first_ns, None if lost else first_ns, packet)
