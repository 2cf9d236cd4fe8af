"""Merged scans of ranges equal one scan of the whole file, whatever the payload pretends to be."""

import random
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from kdissect.capture.formats import pcapng_sections
from kdissect.capture.index.index import CaptureIndex, index_captures
from kdissect.capture.index.range_scan import (
    RangeScan,
    RangeTask,
    scan_range,
)
from kdissect.capture.inputs import CaptureFile
from tests.capture.index.nested_captures import FRAMES, US, nested, within
from tests.capture.outcome import outcome
from tests.helpers.crafted_packets import (
    block,
    enhanced,
    interface,
    option,
    pcap,
    section,
    survey_bytes,
)
from tests.helpers.random_traffic import packets, pcap_traffic, pcapng_traffic


def plain_pcapng(count: int = 400) -> bytes:
    """Two interfaces, described before the first packet."""
    out = [section(), interface(), interface(options=option(9, b"\x09"))]
    for number, (time_us, frame) in enumerate(packets(4, count)):
        out.append(enhanced(time_us * 1000 if number % 2 else time_us, frame, number=number % 2))
    return b"".join(out)


MADE: dict[str, Callable[[], bytes]] = {
    "pcap": lambda: pcap_traffic(1, 400),
    "big-endian": lambda: pcap_traffic(2, 400, ">"),
    "modified": lambda: pcap([(US // 10**6, n, frame) for n, frame in enumerate(FRAMES)], magic=0xA1B2CD34),
    "nanoseconds": lambda: pcap(
        [(US // 10**6, n * 999, frame) for n, frame in enumerate(FRAMES)], magic=0xA1B23C4D
    ),
    "pcapng": plain_pcapng,
    "sections": lambda: pcapng_traffic(3, 400),
}


def looked(path: Path, range_bytes: int, split_bytes: int = 1) -> tuple[CaptureIndex, list[RangeTask]]:
    """Survey a file in ranges; give also what was looked over, again or not."""
    tasks: list[RangeTask] = []

    def run(some: Sequence[RangeTask]) -> Iterable[RangeScan]:
        tasks.extend(some)
        return map(scan_range, some)

    file = CaptureFile(str(path), path.name)
    return index_captures([file], split_bytes, range_bytes=range_bytes, run=run), tasks


def assert_same(path: Path, range_bytes: int) -> list[RangeTask]:
    """Compare with one look at the whole, packet by packet; give what was looked over."""
    whole, _ = looked(path, 1 << 40)
    found, tasks = looked(path, range_bytes)
    assert found == whole  # with a split for each packet, and what it recalls
    return tasks


@pytest.mark.parametrize("name", MADE)
def test_any_ranges_give_the_same(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(MADE[name]())
    for range_bytes in (1_000, 3_001, 16_384, path.stat().st_size - 1):
        assert_same(path, range_bytes)


@pytest.mark.parametrize("name", [name for name in MADE if name != "sections"])
def test_ranges_of_ordinary_captures_are_read_once(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(MADE[name]())
    tasks = assert_same(path, 16_384)
    assert len(tasks) == -(-path.stat().st_size // 16_384) > 4


def test_sections_are_met_by_guessing_again(tmp_path: Path) -> None:
    """Two captures one after the other in one file, in different byte orders.

    The rest is guessed once more.
    """
    second = section(">") + interface(">")
    second += b"".join(enhanced(US + number, FRAMES[number], ">") for number in range(400))
    path = tmp_path / "two.pcapng"
    path.write_bytes(plain_pcapng() + second)
    tasks = assert_same(path, 16_384)
    ranges = -(-path.stat().st_size // 16_384)
    exact = [task for task in tasks if not task.guess]
    assert ranges < len(tasks) < 2 * ranges
    assert len(exact) == 2  # the first, and that in which the second section begins to matter


@pytest.mark.parametrize("name", ["pcap", "big-endian", "pcapng", "sections"])
def test_pass_one_finds_the_same(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(MADE[name]())
    whole = outcome(path, bare=False)
    assert outcome(path, bare=False, split_bytes=5000, range_bytes=5000) == whole
    assert outcome(path, bare=False, split_bytes=2000, range_bytes=10_000) == whole


@pytest.mark.parametrize("kind", ["pcap", "pcapng"])
def test_wrong_guesses_in_a_capture_within_a_capture_do_no_harm(tmp_path: Path, kind: str) -> None:
    path = tmp_path / kind
    path.write_bytes(nested(kind))
    for range_bytes in (700, 3000, 10_000):
        assert_same(path, range_bytes)


@pytest.mark.parametrize(
    "filling", [b"\0", b"\1", b"\xff", b"\0\0\0\x0c", b"\x0c\0\0\0", b"\6\0\0\0\x20\0\0\0"]
)
@pytest.mark.parametrize("kind", ["pcap", "pcapng"])
def test_monotonous_payload(tmp_path: Path, kind: str, filling: bytes) -> None:
    path = tmp_path / kind
    path.write_bytes(within(filling * (20_000 // len(filling)), kind, 2))
    assert_same(path, 1_000)


def odd_blocks(chance: random.Random) -> bytes:
    """Return a pcapng file in which anything may stand anywhere."""
    order, out = "<", [section(), interface()]
    for number in range(chance.randrange(20, 120)):
        frame = FRAMES[chance.randrange(len(FRAMES))]
        kind = chance.random()
        if kind < 0.6:
            out.append(enhanced(US + number * 1000, frame, order, chance.choice((0, 0, 0, 1, 2))))
        elif kind < 0.75:
            out.append(block(3, struct.pack(order + "I", len(frame)) + frame, order))
        elif kind < 0.8:
            options = option(9, bytes([chance.choice((6, 9))]), order)
            out.append(interface(order, chance.choice((1, 101)), chance.choice((0, 100)), options))
        elif kind < 0.83:
            order = chance.choice("<>")
            out.append(section(order))
        elif kind < 0.9:
            counts = option(5, struct.pack(order + "Q", chance.randrange(9)), order)
            out.append(block(5, struct.pack(order + "III", chance.randrange(2), 0, 0) + counts, order))
        elif kind < 0.93:
            out.append(block(10, struct.pack(order + "II", 0x544C534B, 4) + b"keys", order))
        else:
            out.append(block(chance.choice((4, 0xBAD, 0x80000001)), bytes(20), order))
    data = b"".join(out)
    if chance.random() < 0.3:
        data = data[: chance.randrange(len(data) // 2, len(data))]
    if chance.random() < 0.3:
        at = chance.randrange(100, len(data))
        data = data[:at] + chance.randbytes(4) + data[at + 4 :]
    return data


@pytest.mark.parametrize("seed", range(40))
def test_anything_anywhere(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    path = tmp_path / "odd.pcapng"
    path.write_bytes(odd_blocks(chance))
    for range_bytes in (100, 1 + chance.randrange(3000), 8000):
        assert_same(path, range_bytes)


def test_a_file_that_is_cut_off_or_damaged_ends_there(tmp_path: Path) -> None:
    data = MADE["pcap"]()
    header = survey_bytes(tmp_path, data, split_bytes=1).splits[200].start
    path = tmp_path / "x"
    for wrong in (data[:-5], data[:header] + b"\xff" * 16 + data[header + 16 :]):
        path.write_bytes(wrong)
        assert_same(path, 5_000)
        (warning,) = survey_bytes(tmp_path, wrong, split_bytes=5_000, range_bytes=5_000).warnings
        assert " packets before were read" in warning


def test_descriptions_are_counted_over_all_ranges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pcapng_sections, "MOST_BLOCKS", 20)
    data = section() + interface() + b"".join(interface() + enhanced(US, frame) for frame in FRAMES[:60])
    path = tmp_path / "x"
    path.write_bytes(data)
    for range_bytes in (300, 1000, 5000):
        assert_same(path, range_bytes)
    found, _ = looked(path, 1000)
    assert found.warnings[0].startswith("x: the file describes more sections")


def test_a_late_interface_does_not_spoil_ranges_that_do_not_use_it(tmp_path: Path) -> None:
    frames = [enhanced(US + number, frame) for number, frame in enumerate(FRAMES)]
    path = tmp_path / "x"
    path.write_bytes(section() + interface() + b"".join([*frames[:200], interface(), *frames[200:]]))
    tasks = assert_same(path, 70_000)
    assert len(tasks) == -(-path.stat().st_size // 70_000)


def test_files_in_several_ranges_together(tmp_path: Path) -> None:
    files = []
    for name, make in MADE.items():
        (tmp_path / name).write_bytes(make())
        files.append(CaptureFile(str(tmp_path / name), name))
    whole = index_captures(files, 10_000)
    found = index_captures(files, 10_000, range_bytes=10_000)
    bare = [replace(file, splits=()) for file in whole.files]
    assert [replace(file, splits=()) for file in found.files] == bare
    assert [split.index for split in found.splits] == list(range(len(found.splits)))
