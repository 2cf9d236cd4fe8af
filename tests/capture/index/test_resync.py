"""A guess of where a record begins: right in ordinary captures, absent in noise, wrong in nested ones."""

import random
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdissect.capture.formats import pcap as pcap_format
from kdissect.capture.formats.pcapng_sections import SectionState
from kdissect.capture.index.resync import CHAIN, MOST_STEP_S, find_block, find_record, guessed
from kdissect.capture.index.splits import CaptureFormat, Interface
from tests.capture.index.nested_captures import FRAMES, nested
from tests.capture.memory_storage import MemoryStorage
from tests.helpers.crafted_packets import block, enhanced, interface, section, survey_bytes
from tests.helpers.random_traffic import pcap_traffic

HEADER = 16
LONGEST = pcap_format.LARGEST_USUAL
MICROSECONDS = 1_000_000
PLAIN = SectionState(False, (Interface(1, 0),))


def record(seconds: int = 7, ticks: int = 0, captured: int = 50, original: int | None = None) -> bytes:
    """Return a pcap record whose packet is no beginning of a record."""
    return struct.pack("<IIII", seconds, ticks, captured, original or captured) + b"\xff" * captured


def first_record(data: bytes, whole: bool = False, big_endian: bool = False) -> int:
    array = np.frombuffer(data, np.uint8)
    return int(find_record(array, whole, big_endian, HEADER, LONGEST, MICROSECONDS))


def first_block(data: bytes, whole: bool = False, big_endian: bool = False) -> int:
    return int(find_block(np.frombuffer(data, np.uint8), whole, big_endian))


def guess(data: bytes, at: int, kind: str, state: SectionState = PLAIN) -> int | None:
    layout, header = (CaptureFormat.PCAP, HEADER) if kind == "pcap" else (CaptureFormat.PCAPNG, 0)
    return guessed(MemoryStorage(data), at, len(data), layout, header, state)


def starts_of(folder: Path, data: bytes) -> list[int]:
    return [split.start for split in survey_bytes(folder, data, split_bytes=1).splits]


@pytest.mark.parametrize("order", ["<", ">"])
def test_the_next_record_of_a_pcap_file_is_guessed(tmp_path: Path, order: str) -> None:
    data = pcap_traffic(5, 300, order)
    starts = starts_of(tmp_path, data)
    state = SectionState(order == ">", (Interface(1, 262144),))
    for at in range(24, starts[-1], 97):
        assert guess(data, at, "pcap", state) == min(start for start in starts if start >= at)


@pytest.mark.parametrize("order", ["<", ">"])
def test_the_next_block_of_a_pcapng_file_is_guessed(tmp_path: Path, order: str) -> None:
    begin = section(order) + interface(order)
    data = begin + b"".join(enhanced(7 + n, frame, order) for n, frame in enumerate(FRAMES[:300]))
    starts = starts_of(tmp_path, data)
    state = SectionState(order == ">", ())
    for at in range(len(begin), starts[-1], 97):
        assert guess(data, at, "pcapng", state) == min(start for start in starts if start >= at)


@pytest.mark.parametrize("kind", ["pcap", "pcapng"])
def test_a_capture_within_a_capture_deceives(tmp_path: Path, kind: str) -> None:
    data = nested(kind)
    starts = set(starts_of(tmp_path, data))
    guesses = [guess(data, at, kind) for at in range(500, len(data), 3000)]
    deceived = [guess for guess in guesses if guess not in starts]
    assert len(deceived) > len(guesses) // 2  # so whoever uses a guess has to check it


@pytest.mark.parametrize("big_endian", [False, True])
@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("length", [0, 1, 11, 12, 15, 16, 17, 64, 5000])
def test_zeros_are_no_records(length: int, whole: bool, big_endian: bool) -> None:
    assert first_record(bytes(length), whole, big_endian) == -1
    assert first_block(bytes(length), whole, big_endian) == -1


@pytest.mark.parametrize("kind", ["pcap", "pcapng"])
def test_a_long_file_of_zeros_has_no_guess(kind: str) -> None:
    assert guess(bytes(1 << 20), 1001, kind) is None


def test_a_chain_is_more_than_one_header() -> None:
    """A few plausible headers among noise are not taken for records."""
    noise = random.Random(3).randbytes(3000)
    data = noise + record() * (CHAIN - 1) + noise + record() * CHAIN + noise
    assert guess(data, 0, "pcap") == 2 * len(noise) + (CHAIN - 1) * len(record())


def test_a_chain_of_blocks_is_more_than_one_block() -> None:
    noise, one = b"\xfe" * 4000, block(6, b"\xff" * 40)
    data = noise + one * (CHAIN - 1) + noise + one * CHAIN + noise
    assert guess(data, 0, "pcapng") == 2 * len(noise) + (CHAIN - 1) * len(one)


def test_a_chain_that_the_bytes_cut_short_counts_only_at_the_end_of_the_file() -> None:
    for count in range(1, CHAIN):
        records, blocks = record() * count, block(6, bytes(40)) * count
        assert first_record(records, whole=True) == 0
        assert first_record(records, whole=False) == -1
        assert first_record(records[:-1], whole=True) == -1
        assert first_block(blocks, whole=True) == 0
        assert first_block(blocks, whole=False) == -1
        assert first_block(blocks[:-4], whole=True) == -1


def test_the_last_packet_of_a_chain_may_lie_behind_the_bytes() -> None:
    chain = record() * CHAIN
    assert first_record(chain[: -len(record()) + HEADER]) == 0
    assert first_record(chain[: -len(record()) + HEADER - 1]) == -1


IMPLAUSIBLE = {
    "no bytes": record(captured=0),
    "fewer bytes on the wire than captured": record(captured=50, original=49),
    "longer than any packet": record(captured=50, original=LONGEST + 1),
    "a fraction of a second or more": record(ticks=MICROSECONDS),
    "more than a day later": record(seconds=8 + MOST_STEP_S),
    "more than a day earlier": record(seconds=0),
}


@pytest.mark.parametrize("why", IMPLAUSIBLE)
def test_a_header_that_is_implausible_breaks_a_chain(why: str) -> None:
    usual = record(seconds=1 + MOST_STEP_S if "earlier" in why else 7)
    assert first_record(usual * CHAIN) == 0
    assert first_record(usual * (CHAIN - 1) + IMPLAUSIBLE[why]) == -1


def test_a_packet_may_be_as_long_as_the_file_says_and_a_day_late() -> None:
    for usual in (record(original=LONGEST), record(ticks=MICROSECONDS - 1), record(seconds=7 + MOST_STEP_S)):
        assert first_record(record() * (CHAIN - 1) + usual) == 0


@pytest.mark.parametrize(("kind", "known"), [(0, False), (1, True), (0xFFF, True), (0x1000, False)])
def test_blocks_of_known_kinds_make_a_chain(kind: int, known: bool) -> None:
    assert (first_block(block(kind, bytes(8)) * CHAIN) == 0) is known


def test_both_lengths_of_a_block_are_equal() -> None:
    one = block(6, bytes(40))
    for wrong in (one[:-4] + struct.pack("<I", len(one) + 4), one[:4] + struct.pack("<I", 10) + one[8:]):
        assert first_block(one * (CHAIN - 1) + wrong) == -1


def test_a_guess_of_blocks_is_aligned() -> None:
    data = section() + interface() + enhanced(1, b"x" * 60) * 20
    for at in range(60, 200):
        found = guess(data, at, "pcapng")
        assert found is not None
        assert found >= at
        assert found % 4 == 0


@given(st.binary(max_size=300), st.booleans(), st.booleans())
def test_any_bytes_have_a_place_within_them_or_none(data: bytes, whole: bool, big_endian: bool) -> None:
    assert -1 <= first_record(data, whole, big_endian) <= max(-1, len(data) - HEADER)
    assert -1 <= first_block(data, whole, big_endian) <= max(-1, len(data) - 12)
