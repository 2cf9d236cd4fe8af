"""Blocks that are read beside packets: interfaces and flags in either byte order, names, damaged blocks."""

import struct
from pathlib import Path

import pytest

from kdissect.capture.formats.record_reader import RecordLayout, RecordReader
from kdissect.capture.index.splits import interface_table
from kdissect.capture.storage import open_storage
from kdissect.slice.source_blocks import read_interface_info, read_names, read_packet_block
from kdissect.text import IPV4_PREFIX
from tests.helpers.crafted_packets import block, interface, option, section, survey_bytes

HOST = bytes([10, 0, 0, 2])


def packet(order: str, number: int) -> bytes:
    options = option(2, struct.pack(f"{order}I", 2), order) + bytes(4)
    return block(6, struct.pack(f"{order}IIIII", number, 0, 5, 6, 60) + b"packet\0\0" + options, order)


@pytest.mark.parametrize("order", ["<", ">"])
def test_packets_and_interfaces(order: str, tmp_path: Path) -> None:
    described = option(2, b"eth\x1b0", order) + option(3, b"first", order) + bytes(4)
    data = section(order) + interface(order) + interface(order, snap=96, options=described) + packet(order, 1)
    (split,) = survey_bytes(tmp_path, data, "made.pcapng").splits
    with open_storage(split.path) as source:
        reader = RecordReader(source, split.start, split.stop)
        reader.advance(RecordLayout(split.format, split.big_endian, 0, interface_table(split.interfaces)))
        found = read_packet_block(source, split, tuple(reader.records[0].tolist()))
        info = read_interface_info(source, split, split.interfaces[found.interface])
    assert (found.data, found.interface, found.options) == (b"packet", 1, ((2, b"\2\0\0\0"),))
    assert (info.link_type, info.snap_length, info.name, info.description) == (1, 96, "eth\\x1b0", "first")


def names_of(
    folder: Path, record: bytes, order: str = "<", length: int | None = None
) -> list[tuple[int, bytes]]:
    head = struct.pack(f"{order}HH", 1, len(record) if length is None else length)
    names = block(4, head + record + bytes(-len(record) % 4) + bytes(4), order)
    data = section(order) + interface(order) + names + packet(order, 0)
    (split,) = survey_bytes(folder, data, "made.pcapng").splits
    with open_storage(split.path) as source:
        return list(read_names(source, split, 0, split.start, frozenset({IPV4_PREFIX + HOST})))


def test_names_of_wanted_hosts(tmp_path: Path) -> None:
    for order in "<>":
        assert names_of(tmp_path, HOST + b"broker\x1b\0b2\0", order) == [(1, HOST + b"broker\\x1b\0b2\0")]
    assert names_of(tmp_path, b"\x0a\0\0\3other\0") == []
    assert names_of(tmp_path, HOST[:3]) == []
    assert names_of(tmp_path, HOST + b"cut\0", length=500) == []
