"""The scan of one range: its records, where and why it ends, and what it reports about sections."""

import struct
from dataclasses import replace
from pathlib import Path

import pytest

from kdissect.capture.formats import pcapng_sections
from kdissect.capture.formats.file_types import InputError
from kdissect.capture.formats.pcapng_sections import SectionState
from kdissect.capture.index import split_stats
from kdissect.capture.index.range_scan import (
    END,
    NOWHERE,
    RangeScan,
    RangeTask,
    ScanStart,
    scan_range,
)
from kdissect.capture.index.splits import NO_CLOCK, ByteRange, CaptureFormat, Interface
from tests.capture.index.nested_captures import FRAMES
from tests.helpers.crafted_packets import block, enhanced, interface, option, pcap, section

PLAIN = SectionState(False, (Interface(1, 262144),))
NOTHING = SectionState(False, ())
PCAP = pcap([(7, number, frame) for number, frame in enumerate(FRAMES)])
PCAPNG = section() + interface() + b"".join(enhanced(n, frame) for n, frame in enumerate(FRAMES))
STARTS = [24 + 16 * number + sum(map(len, FRAMES[:number])) for number in range(len(FRAMES) + 1)]


def range_of(folder: Path, data: bytes, start: int = 0, limit: int | None = None) -> ByteRange:
    """Write a capture and return a range of it, the rest of the file without `limit`."""
    path = folder / "x"
    path.write_bytes(data)
    kind = CaptureFormat.PCAP if data[:4] == PCAP[:4] else CaptureFormat.PCAPNG
    header = 16 if kind is CaptureFormat.PCAP else 0
    stop = len(data) if limit is None else limit
    return ByteRange(str(path), "x.pcap", len(data), kind, header, start, stop, 1, 1 << 16)


def scan(folder: Path, data: bytes) -> RangeScan:
    """Return the scan of a whole pcapng file."""
    return scan_range(RangeTask(range_of(folder, data), ScanStart(0, NOTHING)))


@pytest.mark.parametrize("border", [24, 25, STARTS[50] - 1, STARTS[50], STARTS[50] + 1, STARTS[-2] + 1])
def test_records_belong_to_the_range_in_which_they_begin(tmp_path: Path, border: int) -> None:
    first = scan_range(RangeTask(range_of(tmp_path, PCAP, 0, border), ScanStart(24, PLAIN)))
    start = ScanStart(first.stop, PLAIN, first.counts[split_stats.LAST_NS])
    second = scan_range(RangeTask(range_of(tmp_path, PCAP, border), start))
    assert first.stop == min(position for position in STARTS if position >= border)
    assert (second.stop, first.ended, second.ended) == (len(PCAP), END, END)
    assert [split.start for scan in (first, second) for split in scan.splits] == STARTS[:-1]
    assert {split.packets for split in first.splits} | {split.packets for split in second.splits} == {1}
    assert [split.first_packet for split in second.splits] == list(range(1, len(second.splits) + 1))


def test_a_guess_is_taken_for_the_start(tmp_path: Path) -> None:
    border = STARTS[100] + 5
    task = RangeTask(range_of(tmp_path, PCAP, border), ScanStart(border, PLAIN), guess=True)
    guessed = scan_range(task)
    assert guessed.entry == ScanStart(STARTS[101], PLAIN, NO_CLOCK)
    exact = scan_range(replace(task, entry=ScanStart(STARTS[101], PLAIN, NO_CLOCK), guess=False))
    assert [split.start for split in guessed.splits] == [split.start for split in exact.splits]
    assert guessed.counts == exact.counts


def test_a_range_without_a_record_is_passed(tmp_path: Path) -> None:
    data = PCAP[:24] + bytes(5000)
    found = scan_range(RangeTask(range_of(tmp_path, data, 1000), ScanStart(1000, PLAIN), guess=True))
    assert (found.entry.position, found.stop, found.ended) == (NOWHERE, NOWHERE, END)
    assert (found.splits, found.link_types, found.counts[split_stats.PACKETS]) == ((), frozenset(), 0)


def test_sections_statistics_and_secrets_are_reported(tmp_path: Path) -> None:
    counts = option(5, struct.pack("<Q", 3))
    parts = [
        section(),
        interface(),
        enhanced(1_000, FRAMES[0]),
        block(5, struct.pack("<III", 0, 0, 0) + counts),
        block(10, struct.pack("<II", 0x544C534B, 4) + b"keys"),
        section(">"),
        interface(">", 113),
        enhanced(2_000, FRAMES[1], ">"),
        enhanced(3_000, FRAMES[2], ">", number=1),
    ]
    data = b"".join(parts)
    found = scan(tmp_path, data)
    assert (found.ended, found.stop) == (END, len(data))
    assert (found.described, found.blocks, found.sections, found.first_section) == (True, 6, 2, 0)
    place = sum(map(len, parts[:6]))
    assert found.in_force == SectionState(True, (Interface(113, 0, defined_at=place),))
    assert found.link_types == {1, 113, -1}
    assert {key: one.interface_drops for key, one in found.statistics.items()} == {(1, 0): 3}
    (secret,) = found.secrets
    assert data[secret.offset : secret.offset + secret.length] == b"keys"
    assert [(split.big_endian, len(split.interfaces)) for split in found.splits] == [
        (False, 1),
        (True, 1),
        (True, 1),
    ]
    assert found.last[:, split_stats.LAST_START].tolist() == [split.start for split in found.splits[1:]]


def test_a_range_without_descriptions_keeps_the_state(tmp_path: Path) -> None:
    begin = len(section() + interface())
    state = SectionState(False, (Interface(1, 0, defined_at=28),))
    found = scan_range(RangeTask(range_of(tmp_path, PCAPNG, begin), ScanStart(begin, state, 5, 2)))
    assert (found.described, found.blocks, found.sections, found.first_section) == (False, 0, 0, None)
    assert found.in_force == state
    assert found.counts[split_stats.PACKETS] == len(FRAMES)


LAST = len(PCAPNG) - len(enhanced(1, FRAMES[-1]))
ENDS = {
    "CUT": PCAPNG[:-1],
    "DAMAGED": PCAPNG[: LAST + 4] + b"\1\0\0\0" + PCAPNG[LAST + 8 :],
    "TOO_MANY": PCAPNG[:LAST] + interface() * 9,
}


@pytest.mark.parametrize("ended", ENDS)
def test_a_scan_ends_where_records_cannot_be_read(
    tmp_path: Path, ended: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pcapng_sections, "MOST_BLOCKS", 10)
    found = scan(tmp_path, ENDS[ended])
    assert found.ended == ended
    assert found.counts[split_stats.PACKETS] == len(FRAMES) - 1
    assert found.stop == LAST + (8 * len(interface()) if ended == "TOO_MANY" else 0)


def test_a_file_that_cannot_be_read_is_an_input_error(tmp_path: Path) -> None:
    part = replace(range_of(tmp_path, PCAP), path=str(tmp_path / "gone"))
    with pytest.raises(InputError, match=r"^x\.pcap: no such file or directory$"):
        scan_range(RangeTask(part, ScanStart(24, PLAIN)))
