"""A packet that was captured twice is told from a retransmission by what each of these has anew."""

import struct
from pathlib import Path

import numpy as np
import pytest

from kdissect.streams.late_duplicates import HEAD, earlier_copies

PAYLOAD = b"request!"
TIMESTAMPS = b"\x01\x01\x08\x0a"  # two paddings, then kind and length of the option


def packet(identification: int, sequence: int, stamp: int | None = None, window: int = 500) -> bytes:
    options = b"" if stamp is None else TIMESTAMPS + struct.pack(">II", stamp, 0)
    tcp = struct.pack(">HHIIBBHHH", 40000, 9092, sequence, 7, (20 + len(options)) // 4 << 4, 16, window, 0, 0)
    ip = struct.pack(">BBHHHBBH8x", 0x45, 0, 0, identification, 0, 64, 6, 0)
    return ip + tcp + options + PAYLOAD


def copies(path: Path, packets: list[bytes], sequences: list[int]) -> list[int]:
    data, places = bytes(HEAD), []
    for one in packets:
        data += one
        places.append(len(data) - len(PAYLOAD))
    path.write_bytes(data)
    keys = np.array([(0, sequence, len(PAYLOAD)) for sequence in sequences])
    repeats = np.array([sequence in sequences[:row] for row, sequence in enumerate(sequences)])
    return earlier_copies(str(path), np.array(places), keys, repeats).tolist()


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        (packet(77, 1000), 0),
        (packet(78, 1000), -1),
        (packet(77, 1000, window=501), -1),
        (packet(77, 1000, stamp=5), -1),
    ],
    ids=["the same packet", "sent again", "another window", "other options"],
)
def test_a_copy_has_the_same_identification(tmp_path: Path, second: bytes, expected: int) -> None:
    assert copies(tmp_path / "capture", [packet(77, 1000), second], [1000, 1000]) == [-1, expected]


def test_without_identification_the_timestamp_decides(tmp_path: Path) -> None:
    packets = [packet(0, 1000, 5), packet(0, 1000, 6), packet(0, 1000, 5), packet(0, 1000)]
    assert copies(tmp_path / "capture", packets, [1000] * 4) == [-1, -1, 0, -1]


def test_the_last_copy_before_counts(tmp_path: Path) -> None:
    packets = [packet(7, 1000), packet(8, 2000), packet(7, 1000), packet(7, 1000)]
    assert copies(tmp_path / "capture", packets, [1000, 2000, 1000, 1000]) == [-1, -1, 0, 2]
