"""Parts of a capture that the record table leaves out: interfaces, options of packets, and names of hosts.

In comes a capture that is open for reading, with file offsets from the index and the record table. Out go
values for `pcapng_writer`. Reading is bounded: one packet, one description or one block of names at a time.
Texts are made safe for terminals, and what cannot be read is left out.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from kdissect.capture.formats import pcapng
from kdissect.capture.formats.pcapng_sections import MOST_BLOCK_BYTES
from kdissect.capture.formats.record_table import AT, CAPTURED, START, STOP
from kdissect.capture.index.splits import CaptureFormat, Interface, Split
from kdissect.capture.storage import CaptureStorage
from kdissect.slice.pcapng_writer import (
    COMMENT,
    DESCRIPTION,
    FLAGS,
    IPV4_NAME,
    IPV6_NAME,
    NAME,
    InterfaceInfo,
    Option,
    comment_option,
)
from kdissect.text import IPV4_PREFIX, escape_control

TEXT_CHARACTERS = 1000  # of a name, a description or a comment
WALKED_BLOCKS = 100_000  # between two splits; beyond that names are left out
NAME_KINDS = {IPV4_NAME: 4, IPV6_NAME: 16}  # records of names, and the bytes of their address


class SourcePacket(NamedTuple):
    """One captured packet: its bytes, its interface, and options that are kept."""

    data: bytes
    interface: int  # number in its split
    options: tuple[Option, ...]


def read_packet_block(source: CaptureStorage, split: Split, record: tuple[int, ...]) -> SourcePacket:
    """Return the packet of a row of the record table."""
    begin, end = record[AT] - record[START], record[AT] - record[START] + record[CAPTURED]
    raw = source.read(record[STOP] - record[START], record[START])
    data = raw[begin:end]
    if split.format is CaptureFormat.PCAP:
        return SourcePacket(data, 0, ())
    order = ">" if split.big_endian else "<"
    kind = struct.unpack_from(f"{order}I", raw)[0]
    if kind == pcapng.ENHANCED_PACKET:
        number = struct.unpack_from(f"{order}I", raw, 8)[0]
        block = pcapng.PcapngBlock(kind, record[START], record[STOP], split.big_endian, raw[8:-4])
        return SourcePacket(data, number, tuple(_kept_options(block, end - 8)))
    number = struct.unpack_from(f"{order}H", raw, 8)[0] if kind == pcapng.PACKET else 0
    return SourcePacket(data, number, ())


def _kept_options(block: pcapng.PcapngBlock, packet_end: int) -> Iterator[Option]:
    """Yield flags (such as inbound or outbound) and comments of an enhanced packet block."""
    if packet_end + 4 >= len(block.body):
        return
    for code, value in block.options(packet_end + 3 & ~3):
        if code == FLAGS and len(value) == 4:
            yield code, int.from_bytes(value, "big" if block.big_endian else "little").to_bytes(4, "little")
        elif code == COMMENT:
            yield comment_option(_safe(value))


def read_interface_info(source: CaptureStorage, split: Split, interface: Interface) -> InterfaceInfo:
    """Return link type, snap length, name and description of an interface."""
    texts = {}
    if split.format is CaptureFormat.PCAPNG:
        position = interface.defined_at
        order = ">" if split.big_endian else "<"
        length = struct.unpack(f"{order}4xI", source.read(pcapng.BLOCK_HEADER, position).ljust(8, b"\0"))[0]
        wanted = max(0, min(length - pcapng.BLOCK_OVERHEAD, MOST_BLOCK_BYTES))
        body = source.read(wanted, position + pcapng.BLOCK_HEADER)
        block = pcapng.PcapngBlock(pcapng.INTERFACE, position, position + length, split.big_endian, body)
        texts = {code: _safe(value) for code, value in block.options(8) if code in (NAME, DESCRIPTION)}
    return InterfaceInfo(
        interface.link_type, interface.snap_length, texts.get(NAME, ""), texts.get(DESCRIPTION, "")
    )


def read_names(
    source: CaptureStorage, split: Split, start: int, stop: int, hosts: frozenset[bytes]
) -> Iterator[tuple[int, bytes]]:
    """Yield the records of name resolution blocks between two file offsets that name one of `hosts`.

    `start` is the offset of a block in the byte order of the split; hosts have 16 bytes.
    """
    order = ">" if split.big_endian else "<"
    for _ in range(WALKED_BLOCKS):
        if start + pcapng.BLOCK_OVERHEAD > stop:
            return
        kind, length = struct.unpack(f"{order}II", source.read(pcapng.BLOCK_HEADER, start))
        if kind == pcapng.SECTION:
            first = source.read(pcapng.SECTION_BYTES, start)
            if pcapng.section_order(first) is not split.big_endian:
                return
        if length < pcapng.BLOCK_OVERHEAD:
            return
        if kind == pcapng.NAMES:
            wanted = min(length - pcapng.BLOCK_OVERHEAD, MOST_BLOCK_BYTES)
            body = source.read(wanted, start + pcapng.BLOCK_HEADER)
            block = pcapng.PcapngBlock(kind, start, start + length, split.big_endian, body)
            yield from _names_in(block, hosts)
        start += length + 3 & ~3


def _names_in(block: pcapng.PcapngBlock, hosts: frozenset[bytes]) -> Iterator[tuple[int, bytes]]:
    for kind, value in block.options(0):
        size = NAME_KINDS.get(kind, 0)
        address = value[:size]
        if size and len(address) == size and (IPV4_PREFIX + address if size == 4 else address) in hosts:
            names = [_safe(name) for name in value[size:].split(b"\0") if name]
            if names:
                yield kind, address + b"".join(name.encode("utf-8", "replace") + b"\0" for name in names)


def _safe(value: bytes) -> str:
    return escape_control(value.decode("utf-8", "replace")[:TEXT_CHARACTERS])
