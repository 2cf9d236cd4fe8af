"""The pcapng format: sections, interfaces, resolutions, every packet block, statistics, secrets, damage."""

import struct
from pathlib import Path

import pytest

from kdissect.capture.formats import pcapng
from kdissect.capture.index.index import FileIndex
from kdissect.capture.index.splits import LATEST_NS, CaptureFormat
from tests.helpers.crafted_packets import (
    block,
    enhanced,
    ethernet,
    interface,
    option,
    section,
    survey_bytes,
    tcp,
)

FRAME = ethernet(tcp(payload=b"hello"))
SECOND = 10**9


def only(folder: Path, data: bytes) -> FileIndex:
    (file,) = survey_bytes(folder, data).files
    assert file.format is CaptureFormat.PCAPNG
    return file


RESOLUTIONS = [
    (None, 1_700_000_000_123_456, 0, 1_700_000_000_123_456_000),
    (6, 1_700_000_000_123_456, 0, 1_700_000_000_123_456_000),
    (9, 1_700_000_000_123_456_789, 0, 1_700_000_000_123_456_789),
    (0, 1_700_000_000, 0, 1_700_000_000 * SECOND),
    (3, 1_700_000_000_123, 0, 1_700_000_000_123_000_000),
    (7, 17_000_000_001_234_567, 0, 1_700_000_000_123_456_700),
    (10, 1_700_000_000_123_456_789, 1_530_000_000, 1_700_000_000_012_345_678),
    (12, 1_234_567_890_123, 1_700_000_000, 1_700_000_001_234_567_890),
    (0x80, 1_700_000_000, 0, 1_700_000_000 * SECOND),
    (0x80 | 1, 3, 0, 1_500_000_000),
    (0x80 | 10, 1_700_000_000 * 1024 + 512, 0, 1_700_000_000_500_000_000),
    (0x80 | 20, (1_700_000_000 << 20) + (1 << 18), 0, 1_700_000_000_250_000_000),
    (0x80 | 32, (1_700_000_000 << 32) + (1 << 31) + (1 << 29), 0, 1_700_000_000_625_000_000),
    (0x80 | 33, (1_700_000_000 << 33) + 1, 0, 1_700_000_000_000_000_000),
    (0x80 | 40, (10_000_000 << 40) + (3 << 38), 0, 10_000_000_750_000_000),
    (0x80 | 63, (1 << 63) + (1 << 62), 1_700_000_000, 1_700_000_001_500_000_000),
    (6, 2_000_000, -1, SECOND),
    (6, 1_000_000, 1_699_999_999, 1_700_000_000 * SECOND),
    # Beyond what int64 nanoseconds hold: kept within 1970 .. 2116.
    (6, 0xFFFFFFFFFFFFFFFF, 0, LATEST_NS),
    (9, 0xFFFFFFFFFFFFFFFF, 0, LATEST_NS),
    (0x80, 0xFFFFFFFFFFFFFFFF, 0, LATEST_NS),
    (0x80 | 31, 0xFFFFFFFFFFFFFFFF, 0, LATEST_NS),
    (6, 1_000_000, -2, 0),
    (6, 1_000_000, -(1 << 63), 0),
    (6, 1_000_000, (1 << 63) - 1, LATEST_NS),
]


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(("resolution", "ticks", "offset_s", "time_ns"), RESOLUTIONS)
def test_times_at_every_resolution(
    tmp_path: Path, order: str, resolution: int | None, ticks: int, offset_s: int, time_ns: int
) -> None:
    options = option(9, bytes([resolution]), order) if resolution is not None else b""
    options += option(14, struct.pack(order + "q", offset_s), order) if offset_s else b""
    file = only(tmp_path, section(order) + interface(order, options=options) + enhanced(ticks, FRAME, order))
    assert file.first_time_ns == time_ns


@pytest.mark.parametrize("resolution", [28, 40, 127, 0xFF])
def test_absurd_resolutions_do_no_harm(tmp_path: Path, resolution: int) -> None:
    file = only(
        tmp_path, section() + interface(options=option(9, bytes([resolution]))) + enhanced(12345, FRAME)
    )
    assert file.packets == 1


def test_several_interfaces_each_with_its_own_clock(tmp_path: Path) -> None:
    data = section() + interface() + interface(link_type=101, options=option(9, b"\x09"))
    data += enhanced(5_000_000, FRAME) + enhanced(6 * SECOND + 1, FRAME[14:], number=1)
    file = only(tmp_path, data)
    assert (file.first_time_ns, file.last_time_ns) == (5 * SECOND, 6 * SECOND + 1)
    assert file.link_types == (1, 101)


@pytest.mark.parametrize("order", ["<", ">"])
def test_simple_and_obsolete_packet_blocks(tmp_path: Path, order: str) -> None:
    simple = block(3, struct.pack(order + "I", len(FRAME)) + FRAME, order)
    body = struct.pack(order + "HHIIII", 0, 5, 0, 3_000_000, len(FRAME), len(FRAME) + 10) + FRAME
    found = survey_bytes(tmp_path, section(order) + interface(order) + block(2, body, order) + simple)
    (file,) = found.files
    assert (file.packets, file.captured_bytes, file.wire_bytes) == (2, 2 * len(FRAME), 2 * len(FRAME) + 10)
    assert (file.first_time_ns, file.last_time_ns) == (3 * SECOND, 3 * SECOND)


def test_the_snap_length_bounds_simple_packets(tmp_path: Path) -> None:
    simple = block(3, struct.pack("<I", 1500) + FRAME[:50])
    file = only(tmp_path, section() + interface(snap=50) + simple)
    assert (file.captured_bytes, file.wire_bytes, file.truncated_packets) == (50, 1500, 1)


def test_other_blocks_are_passed_over(tmp_path: Path) -> None:
    others = (
        block(4, bytes(20)) + block(0xBAD, bytes(7)) + block(0x80000001, b"") + block(0x40000BAD, bytes(4))
    )
    file = only(tmp_path, section() + others + interface() + others + enhanced(1, FRAME) + others)
    assert (file.packets, file.warnings) == (1, ())


def test_padding_left_out_of_the_length(tmp_path: Path) -> None:
    body = struct.pack("<IIIII", 0, 0, 7, 5, 5) + b"12345"
    odd = struct.pack("<II", 6, len(body) + 12) + body + bytes(3) + struct.pack("<I", len(body) + 12)
    file = only(tmp_path, section() + interface() + odd + enhanced(9, FRAME))
    assert (file.packets, file.last_time_ns, file.warnings) == (2, 9000, ())


def test_damage_keeps_what_was_before(tmp_path: Path) -> None:
    begin = section() + interface() + enhanced(1_000_000, FRAME)
    for wrong in (
        struct.pack("<II", 6, 8) + bytes(40),  # shorter than any block
        struct.pack("<II", 6, 20) + bytes(40),  # shorter than a packet block
        struct.pack("<II", 99, 0xFFFFFFF0) + bytes(40),
        struct.pack("<II", 6, 32 + 16) + struct.pack("<IIIII", 0, 0, 0, 4000, 4000) + bytes(20),
        struct.pack("<II", 3, 12) + bytes(40),
        pcapng.SECTION_MAGIC + bytes(40),
    ):
        file = only(tmp_path, begin + wrong)
        assert file.packets == 1
        assert file.warnings == (f"the file is damaged at byte {len(begin)}; the 1 packets before were read",)


def test_a_file_cut_anywhere_keeps_the_whole_blocks(tmp_path: Path) -> None:
    parts = [
        section(),
        interface(),
        enhanced(1, FRAME),
        section(">"),
        interface(">"),
        enhanced(2, FRAME, ">"),
    ]
    data = b"".join(parts)
    ends = [sum(map(len, parts[: i + 1])) for i in range(len(parts))]
    for stop in range(ends[0], len(data) + 1):
        file = only(tmp_path, data[:stop])
        assert file.packets == (stop >= ends[2]) + (stop >= ends[5])
        assert bool(file.warnings) == (stop not in ends)
