"""A stream of capture bytes, cut at packet boundaries, so that it can be divided into files.

In come bytes of pcap or pcapng as they arrive. Out come the bytes of complete records, and the header that a
file with later records must begin with: that of the pcap file, or the section, its interfaces and its
secrets. A record that is too long means that the stream is damaged, and nothing after it can be read.
"""

import struct

from kdissect.capture.formats import pcapng
from kdissect.capture.formats.file_types import InputError, not_a_capture
from kdissect.capture.formats.pcap import HEADER_BYTES, MAGICS
from kdissect.capture.formats.pcapng import BLOCK_OVERHEAD, SECTION_MAGIC
from kdissect.capture.formats.record_table import MOST_RECORD_BYTES

MAGIC_BYTES = 4
CAPTURED_AT = 8  # of the length of a packet in the header of its record
BYTE_ORDER_AT = 8
LITTLE_ENDIAN = b"\x4d\x3c\x2b\x1a"
REPEATED = (pcapng.INTERFACE, pcapng.SECRETS)
PACKETS = (pcapng.PACKET, pcapng.SIMPLE_PACKET, pcapng.ENHANCED_PACKET)
MOST_HEADER_BYTES = 16 << 20  # of descriptions that are repeated; later ones are in their own file only


class PacketStream:
    """See the module's text. `feed` adds bytes, `take` returns the complete records that came since."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._data = bytearray()
        self._complete = 0  # bytes of `_data` that are complete records
        self._header = b""
        self._record_header = 0  # of pcap; 0 for pcapng
        self._order = "<"
        self._is_known = False
        self.packets = 0  # so far, in complete records

    def feed(self, data: bytes) -> None:
        """Add bytes. Raise InputError if they are no capture, or damaged."""
        self._data += data
        if not self._is_known and not self._read_magic():
            return
        if self._record_header:
            self._walk_records()
        else:
            self._walk_blocks()

    def header(self) -> bytes:
        """Return what a file must begin with whose records come next."""
        return self._header

    def take(self) -> bytes:
        """Return the complete records that came since the last call."""
        records = bytes(memoryview(self._data)[: self._complete])
        del self._data[: self._complete]
        self._complete = 0
        return records

    @property
    def begins_with_section(self) -> bool:
        """Return whether the records begin with a section of pcapng, which needs no header before it."""
        return not self._record_header and self._data[: min(MAGIC_BYTES, self._complete)] == SECTION_MAGIC

    @property
    def rest(self) -> int:
        """The bytes of a record that has not come completely."""
        return len(self._data) - self._complete

    def _read_magic(self) -> bool:
        magic = bytes(self._data[:MAGIC_BYTES])
        if len(magic) < MAGIC_BYTES:
            return False
        if magic in MAGICS:
            if len(self._data) < HEADER_BYTES:
                return False
            big_endian, _, self._record_header = MAGICS[magic]
            self._order = ">" if big_endian else "<"
            self._header = bytes(self._data[:HEADER_BYTES])
            del self._data[:HEADER_BYTES]
        elif magic != SECTION_MAGIC:
            raise not_a_capture(self._name, magic)
        self._is_known = True
        return True

    def _walk_records(self) -> None:
        data, at, header = self._data, self._complete, self._record_header
        length = struct.Struct(f"{self._order}I").unpack_from
        last = len(data) - header
        while at <= last:
            captured = length(data, at + CAPTURED_AT)[0]
            if captured > MOST_RECORD_BYTES:
                self._complete = at
                raise self._damaged(captured)
            if at + captured > last:
                break
            at += header + captured
            self.packets += 1
        self._complete = at

    def _walk_blocks(self) -> None:
        data = self._data
        while len(data) - self._complete >= BLOCK_OVERHEAD:
            at = self._complete
            is_section = data[at : at + MAGIC_BYTES] == SECTION_MAGIC
            if is_section:
                little = data[at + BYTE_ORDER_AT : at + BLOCK_OVERHEAD] == LITTLE_ENDIAN
                self._order = "<" if little else ">"
            kind, size = struct.unpack_from(f"{self._order}II", data, at)
            if size < BLOCK_OVERHEAD or size > MOST_RECORD_BYTES:
                raise self._damaged(size)
            if at + size > len(data):
                break
            if is_section:
                self._header = bytes(data[at : at + size])
            elif kind in REPEATED and len(self._header) + size <= MOST_HEADER_BYTES:
                self._header += bytes(data[at : at + size])
            self.packets += kind in PACKETS
            self._complete += size

    def _damaged(self, size: int) -> InputError:
        return InputError(
            f"{self._name} is damaged after {self.packets:,} packets: a record of {size:,} bytes"
        )
