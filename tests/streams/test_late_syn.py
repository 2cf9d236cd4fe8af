"""A SYN that was captured late belongs to the connection that its port pair has.

Another one begins a connection.
"""

from pathlib import Path

import pytest

from kdissect.capture.scan import scan_split
from kdissect.tables.build import dissect_batches
from tests.helpers.crafted_packets import ACK, SYN, ethernet, pcap, survey_bytes, tcp


def to_broker(seq: int, payload: bytes = b"", flags: int = ACK) -> bytes:
    return tcp(payload=payload, seq=seq, ack=501, flags=flags, identification=seq & 0xFFFF)


def to_client(ack: int, payload: bytes = b"", flags: int = ACK, seq: int = 501) -> bytes:
    return tcp("10.0.0.2", "10.0.0.1", (9092, 40000), payload, seq, ack, flags, identification=ack & 0xFFFF)


MANY = [to_broker(201 + 100 * number, bytes(100)) for number in range(40)]

# The captured packets, and how many of them belong to each connection.
CASES: dict[str, tuple[list[bytes], list[int]]] = {
    "after its answer": (
        [to_client(101, flags=SYN | ACK), to_broker(100, flags=SYN), to_broker(101, b"x")],
        [3],
    ),
    "after its data": ([to_broker(201, b"x"), to_client(202, b"y"), to_broker(200, flags=SYN)], [3]),
    "after much data": ([*MANY, to_broker(200, flags=SYN), to_broker(4201, b"x")], [42]),
    "in the middle of data": ([*MANY, to_broker(3000, flags=SYN), to_broker(4201, b"x")], [40, 2]),
    "after much data and its answer": (
        [*MANY, to_client(3001, flags=SYN | ACK), to_broker(3000, flags=SYN), to_broker(3001, b"x")],
        [43],
    ),
    "after what answers its data": (
        [to_client(251, b"y"), to_broker(200, flags=SYN), to_broker(201, b"x")],
        [3],
    ),
    "after what answers another one": (
        [to_client(251, b"y"), to_broker(7000, flags=SYN), to_broker(7001, b"x")],
        [2, 1],
    ),
    "from the other end with the same number": (
        [
            to_broker(100, flags=SYN),
            to_broker(101, b"x"),
            to_client(0, flags=SYN, seq=100),
            to_client(0, b"y", seq=101),
        ],
        [2, 2],
    ),
    "the answer of another one": (
        [to_broker(100, flags=SYN), to_client(7001, flags=SYN | ACK), to_broker(7000, flags=SYN)],
        [2, 1],
    ),
}


@pytest.mark.parametrize("parts", [1, 5, 50])
@pytest.mark.parametrize("case", CASES)
def test_each_case(tmp_path: Path, case: str, parts: int) -> None:
    frames, packets = CASES[case]
    data = pcap([(number, 0, ethernet(frame)) for number, frame in enumerate(frames)])
    splits = survey_bytes(tmp_path, data, split_bytes=1 + len(data) // parts).splits
    *_, last = dissect_batches([scan_split(split) for split in splits], splits)
    assert sorted(last["connections"]["packets"].to_pylist(), reverse=True) == packets
