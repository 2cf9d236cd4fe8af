"""Sections and interfaces of pcapng files while they are read, and the limits of their descriptions."""

import struct
from pathlib import Path

import pytest

from kdissect.capture.formats import pcapng_sections
from kdissect.capture.index.index import FileIndex
from kdissect.capture.index.splits import CaptureFormat
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
