"""Sections and interfaces of pcapng files while they are read, and the limits of their descriptions."""

import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdissect.capture.formats import pcapng_sections
from kdissect.capture.formats.pcapng_sections import BlockOutcome, SectionReader, SectionState
from kdissect.capture.index.index import FileIndex
from kdissect.capture.index.splits import CaptureFormat, Interface, interface_table
from tests.capture.memory_storage import MemoryStorage
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


def test_sections_in_both_orders_forget_interfaces(tmp_path: Path) -> None:
    little = section("<") + interface("<", link_type=113) + enhanced(1_000_000, b"a" * 60, "<")
    big = section(">") + interface(">", options=option(9, b"\x09", ">")) + enhanced(2 * SECOND, FRAME, ">")
    lost = section("<") + enhanced(9_000_000, FRAME, "<")
    found = survey_bytes(tmp_path, little + big + lost)
    (file,) = found.files
    assert (file.packets, file.link_types, file.first_time_ns) == (3, (1, 113, -1), SECOND)
    assert [(split.big_endian, split.first_packet, split.packets) for split in found.splits] == [
        (False, 1, 1),
        (True, 2, 1),
        (False, 3, 1),
    ]
    assert [len(split.interfaces) for split in found.splits] == [1, 1, 0]
    assert found.splits[2].time_before_ns == 2 * SECOND


def test_an_interface_is_known_only_behind_its_description(tmp_path: Path) -> None:
    data = section() + interface() + enhanced(1_000_000, FRAME)
    data += (
        enhanced(2_000_000, FRAME, number=1) + interface(link_type=101) + enhanced(3_000_000, FRAME, number=1)
    )
    found = survey_bytes(tmp_path, data)
    assert found.files[0].link_types == (1, 101, -1)
    assert found.files[0].last_time_ns == 3 * SECOND
    assert len(found.splits) == 1
    assert [one.link_type for one in found.splits[0].interfaces] == [1, 101]


@pytest.mark.parametrize("order", ["<", ">"])
def test_statistics_and_secrets(tmp_path: Path, order: str) -> None:
    def statistics(number: int, by_interface: int, by_system: int) -> bytes:
        counts = option(5, struct.pack(order + "Q", by_interface), order) + option(
            7, struct.pack(order + "Q", by_system), order
        )
        return block(5, struct.pack(order + "III", number, 0, 0) + counts + option(0, b"", order), order)

    keys = b"CLIENT_RANDOM 00 11\n"
    secrets = block(10, struct.pack(order + "II", 0x544C534B, len(keys)) + keys, order)
    data = section(order) + interface(order) + interface(order) + secrets
    data += statistics(0, 3, 1) + enhanced(1, FRAME, order) + statistics(0, 10, 4) + statistics(1, 5, 0)
    file = only(tmp_path, data)
    assert (file.interface_drops, file.system_drops) == (15, 4)
    (secret,) = file.secrets
    assert secret.kind == 0x544C534B
    assert data[secret.offset : secret.offset + secret.length] == keys


def test_nothing_but_descriptions_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pcapng_sections, "MOST_BLOCKS", 200)
    assert only(tmp_path, section() + interface() * 199 + enhanced(1, FRAME)).packets == 1
    for data in (section() + interface() * 200, section() * 201):
        file = only(tmp_path, data + enhanced(1, FRAME))
        assert file.packets == 0
        assert "more sections and interfaces than any capture has" in file.warnings[0]


def read_all(reader: SectionReader, data: bytes, *positions: int) -> list[BlockOutcome]:
    """Read the blocks at some positions of a file."""
    source = MemoryStorage(data)
    return [reader.read(source, position, len(data), lambda: None)[0] for position in positions]


EMPTY = SectionState(False, ())


@pytest.mark.parametrize("order", ["<", ">"])
def test_a_reader_takes_sections_and_interfaces(order: str) -> None:
    parts = [section(order), interface(order, 113, 90), section("<"), interface("<", 101)]
    data = b"".join(parts)
    reader, source, position, ended = SectionReader(EMPTY), MemoryStorage(data), 0, []
    for part in parts:
        outcome, after = reader.read(source, position, len(data), lambda: ended.append(reader.in_force))
        assert (outcome, after) == (BlockOutcome.WHOLE, position + len(part))
        position = after
    described = Interface(113, 90, defined_at=len(parts[0]))
    assert ended == [EMPTY, SectionState(order == ">", (described,))]
    assert reader.in_force == SectionState(False, (Interface(101, 0, defined_at=len(data) - len(parts[3])),))
    assert (reader.begun, reader.first_begun, reader.blocks, reader.described) == (2, 0, 4, True)


def test_the_table_of_many_interfaces_is_that_of_splits() -> None:
    data = section() + b"".join(interface(link_type=number) for number in range(50))
    reader, first = SectionReader(EMPTY), len(section())
    for number in range(50):
        read_all(reader, data, first + number * len(interface()))
        assert len(reader.interfaces) == len(reader.table) == number + 1
    assert [one.link_type for one in reader.interfaces] == list(range(50))
    np.testing.assert_array_equal(reader.table, interface_table(reader.interfaces))
    again = SectionReader(reader.in_force, 50)
    np.testing.assert_array_equal(again.table, reader.table)
    assert (again.described, again.blocks) == (False, 50)


@pytest.mark.parametrize("make", [section, interface], ids=["section", "interface"])
def test_a_description_cut_anywhere_changes_nothing(make: Callable[[], bytes]) -> None:
    data = make()
    for size in range(8, len(data)):
        reader = SectionReader(EMPTY)
        outcome = reader.read(MemoryStorage(data[:size]), 0, size, lambda: None)
        assert outcome == (BlockOutcome.CUT, 0)
        assert (reader.in_force, reader.described, reader.begun) == (EMPTY, False, 0)


@pytest.mark.parametrize(
    "wrong", [b"\x1a\x2b\x3c\x4e", b"\0\0\0\0", b"\xff\xff\xff\xff"], ids=["mixed", "zeros", "ones"]
)
def test_a_section_without_a_byte_order_is_damage(wrong: bytes) -> None:
    data = section()[:8] + wrong + section()[12:]
    assert read_all(SectionReader(EMPTY), data, 0) == [BlockOutcome.DAMAGED]


def test_the_number_of_descriptions_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pcapng_sections, "MOST_BLOCKS", 10)
    data = section() + interface()
    assert read_all(SectionReader(EMPTY, 8), data, 0, 28) == [BlockOutcome.WHOLE] * 2
    reader = SectionReader(EMPTY, 9)
    assert read_all(reader, data, 0, 28) == [BlockOutcome.WHOLE, BlockOutcome.TOO_MANY]
    assert reader.interfaces == ()


def test_the_bytes_read_of_a_description_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    late = option(2, bytes(100)) + option(9, b"\x09")
    for most, resolution in ((1 << 20, 9), (60, 6)):
        monkeypatch.setattr(pcapng_sections, "MOST_BLOCK_BYTES", most)
        reader = SectionReader(EMPTY)
        assert read_all(reader, interface(options=late), 0) == [BlockOutcome.WHOLE]
        assert [one.resolution for one in reader.interfaces] == [resolution]


def test_the_last_statistics_of_every_interface_and_section_are_kept() -> None:
    def statistics(number: int, drops: int) -> bytes:
        return block(5, struct.pack("<III", number, 0, 0) + option(5, struct.pack("<Q", drops)))

    parts = [statistics(0, 1), statistics(0, 2), statistics(1, 3), section(), statistics(0, 4)]
    positions = [sum(map(len, parts[:index])) for index in range(len(parts))]
    reader = SectionReader(EMPTY)
    assert set(read_all(reader, b"".join(parts), *positions)) == {BlockOutcome.WHOLE}
    assert {key: one.interface_drops for key, one in reader.statistics.items()} == {
        (0, 0): 2,
        (0, 1): 3,
        (1, 0): 4,
    }


@given(st.binary(max_size=120), st.booleans(), st.booleans())
def test_any_block_is_read_or_refused(body: bytes, big_endian: bool, opens: bool) -> None:
    data = (section() if opens else b"")[:12] + body
    data += bytes(max(0, 8 - len(data)))
    reader = SectionReader(SectionState(big_endian, ()))
    outcome, after = reader.read(MemoryStorage(data), 0, len(data), lambda: None)
    assert isinstance(outcome, BlockOutcome)
    assert after <= len(data)
    assert len(reader.interfaces) <= 1
