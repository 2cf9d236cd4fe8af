"""The pcap format: every magic number in both byte orders, times, damage, cut files."""

import struct
from pathlib import Path

import pytest

from kdissect.capture.formats import pcap as module
from kdissect.capture.index.splits import CaptureFormat
from tests.helpers.crafted_packets import ethernet, pcap, survey_bytes, tcp

FRAME = ethernet(tcp(payload=b"hello"))
MAGICS = {0xA1B2C3D4: 1000, 0xA1B23C4D: 1, 0xA1B2CD34: 1000, 0xA1B23C34: 1}


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("magic", MAGICS)
def test_every_magic_number_in_both_orders(tmp_path: Path, order: str, magic: int) -> None:
    data = pcap([(1_700_000_000, 123_456, FRAME), (1_700_000_001, 7, FRAME)], order, magic)
    found = survey_bytes(tmp_path, data)
    (file,) = found.files
    assert file.format is CaptureFormat.PCAP
    assert file.packets == 2
    assert file.first_time_ns == 1_700_000_000_000_000_000 + 123_456 * MAGICS[magic]
    assert file.last_time_ns == 1_700_000_001_000_000_000 + 7 * MAGICS[magic]
    assert file.captured_bytes == file.wire_bytes == 2 * len(FRAME)
    assert file.link_types == (1,)
    assert file.warnings == ()
    (split,) = found.splits
    assert (split.start, split.stop, split.first_packet, split.packets) == (24, len(data), 1, 2)
    assert split.big_endian == (order == ">")


def test_the_upper_half_of_the_link_type_is_not_part_of_it() -> None:
    header = module.read_header(pcap([], link_type=0x2400_0000 | 113))
    assert header is not None
    assert header.interface.link_type == 113


@pytest.mark.parametrize("length", range(24))
def test_a_cut_header_is_no_header(length: int) -> None:
    assert module.read_header(pcap([])[:length]) is None


def test_times_beyond_31_bits_and_fractions_beyond_a_second(tmp_path: Path) -> None:
    (file,) = survey_bytes(tmp_path, pcap([(0xFFFFFFFF, 1_999_999, FRAME)])).files
    assert file.first_time_ns == 0xFFFFFFFF * 10**9 + 1_999_999_000


def test_lengths_on_the_wire_smaller_than_what_was_captured(tmp_path: Path) -> None:
    record = struct.pack("<IIII", 5, 6, len(FRAME), len(FRAME) - 16) + FRAME
    (file,) = survey_bytes(tmp_path, pcap([]) + record + record).files
    assert (file.packets, file.captured_bytes, file.wire_bytes) == (2, 2 * len(FRAME), 2 * len(FRAME) - 32)
    assert file.truncated_packets == 0


def test_truncated_packets_are_counted(tmp_path: Path) -> None:
    record = struct.pack("<IIII", 5, 6, 40, 1500) + FRAME[:40]
    (file,) = survey_bytes(tmp_path, pcap([]) + record).files
    assert (file.truncated_packets, file.captured_bytes, file.wire_bytes) == (1, 40, 1500)


def test_a_file_cut_anywhere_keeps_the_whole_records(tmp_path: Path) -> None:
    data = pcap([(1, 0, FRAME), (2, 0, FRAME)])
    one = 24 + 16 + len(FRAME)
    for stop in range(24, len(data)):
        (file,) = survey_bytes(tmp_path, data[:stop]).files
        whole = 1 if stop >= one else 0
        assert file.packets == whole
        if stop in (24, one):
            assert file.warnings == ()
        else:
            at = one if whole else 24
            assert file.warnings == (
                f"the file ends within a record at byte {at}; the {whole} packets before were read",
            )


@pytest.mark.parametrize(
    ("snap", "length", "damaged"),
    [
        (65535, 262144, False),
        (65535, 262145, True),
        (1_000_000, 900_000, False),
        (0, 900_000, False),
        (0x7FFFFFFF, 900_000, False),
        (0, (64 << 20) + 1, True),
        (262144, 0xFFFFFFFF, True),
    ],
)
def test_insane_record_lengths_are_damage(tmp_path: Path, snap: int, length: int, damaged: bool) -> None:
    sane = struct.pack("<IIII", 1, 0, len(FRAME), len(FRAME)) + FRAME
    body = bytes(length) if length <= 900_000 else bytes(100)
    found = survey_bytes(
        tmp_path, pcap([], snap=snap) + sane + struct.pack("<IIII", 2, 0, length, length) + body
    )
    (file,) = found.files
    assert file.packets == (1 if damaged else 2)
    assert file.warnings == (
        (f"the file is damaged at byte {24 + len(sane)}; the 1 packets before were read",) if damaged else ()
    )
    assert found.splits[0].packets == file.packets
