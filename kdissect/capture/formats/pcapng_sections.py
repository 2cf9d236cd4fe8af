"""What a pcapng file says of itself on the way: sections, interfaces, statistics, secrets.

The walk stops at such blocks; `SectionReader` reads them one by one and holds what is in force. Hostile files may hold nothing
but descriptions, so there is a limit to their number.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

import numpy as np

from kdissect.capture.formats import pcapng
from kdissect.capture.formats.record_table import Int64s
from kdissect.capture.index.splits import (
    INTERFACE_FIELDS,
    Interface,
    interface_row,
)
from kdissect.capture.storage import CaptureStorage

MOST_BLOCKS = 100_000  # descriptions in one file: far more than any capture tool writes
MOST_BLOCK_BYTES = 1 << 20  # read of one description; options behind that are not looked at


class BlockOutcome(Enum):
    """What became of a block."""

    WHOLE = auto()
    CUT = auto()
    DAMAGED = auto()
    TOO_MANY = auto()


@dataclass(frozen=True, slots=True)
class SectionState:
    """What must be known to read records from some place on: the byte order, and the interfaces described so far."""

    big_endian: bool
    interfaces: tuple[Interface, ...]


class SectionReader:
    """The section in force and its interfaces, as they change on the way from some place on; what is told there besides."""

    def __init__(self, in_force: SectionState, blocks: int = 0) -> None:
        """Begin with what is in force; `blocks` descriptions came before."""
        self.big_endian = in_force.big_endian
        self.secrets: list[pcapng.SecretsBlock] = []
        self.statistics: dict[tuple[int, int], pcapng.InterfaceStatistics] = {}
        """The last of each interface: by the ordinal of the section (0: the one in force at the beginning), and its number."""
        self.begun = 0
        """Sections that began on the way."""
        self.first_begun: int | None = None
        """Where the first of them did."""
        self.blocks = blocks
        self.described = False
        """Whether a section or an interface was described on the way."""
        self._interfaces: list[Interface] = []
        self._frozen: tuple[Interface, ...] = ()
        self._table = np.empty((4, INTERFACE_FIELDS), dtype=np.int64)
        for interface in in_force.interfaces:
            self._add(interface)

    @property
    def interfaces(self) -> tuple[Interface, ...]:
        """The interfaces of this section that are described up to here."""
        if len(self._frozen) != len(self._interfaces):
            self._frozen = tuple(self._interfaces)
        return self._frozen

    @property
    def in_force(self) -> SectionState:
        """What is in force now."""
        return SectionState(self.big_endian, self.interfaces)

    @property
    def table(self) -> Int64s:
        """The same interfaces as `splits.interface_table` gives them."""
        return self._table[: len(self._interfaces)]

    def read(
        self, source: CaptureStorage, position: int, size: int, before_section: Callable[[], None]
    ) -> tuple[BlockOutcome, int]:
        """Read the block at `position` of a file of `size` bytes; give what became of it and the position after it.

        Calls `before_section` when the block ends the section in force, as long as that still is in force.
        """
        first = source.read(pcapng.SECTION_BYTES, position)
        opens = first[:4] == pcapng.SECTION_MAGIC
        if opens:
            if len(first) < pcapng.SECTION_BYTES:
                return BlockOutcome.CUT, position
            order = pcapng.section_order(first)
            if order is None:
                return BlockOutcome.DAMAGED, position
            before_section()
            self.big_endian = order
        kind, length = struct.unpack_from(">II" if self.big_endian else "<II", first)
        stop = position + (length + 3 & ~3)
        self.blocks += 1
        if stop > size:
            return BlockOutcome.CUT, position
        if self.blocks > MOST_BLOCKS:
            return BlockOutcome.TOO_MANY, position
        if opens:
            self._open_section(position)
            return BlockOutcome.WHOLE, stop
        wanted = min(length - pcapng.BLOCK_OVERHEAD, MOST_BLOCK_BYTES)
        body = source.read(wanted, position + pcapng.BLOCK_HEADER)
        self._take(pcapng.PcapngBlock(kind, position, stop, self.big_endian, body))
        return BlockOutcome.WHOLE, stop

    def _open_section(self, position: int) -> None:
        self.begun += 1
        if self.first_begun is None:
            self.first_begun = position
        self.described = True
        self._interfaces = []
        self._frozen = ()

    def _take(self, block: pcapng.PcapngBlock) -> None:
        if block.kind == pcapng.INTERFACE:
            self.described = True
            self._add(pcapng.read_interface(block))
        elif block.kind == pcapng.STATISTICS:
            statistics = pcapng.read_statistics(block)
            self.statistics[self.begun, statistics.interface] = statistics
        elif block.kind == pcapng.SECRETS:
            self.secrets.append(pcapng.read_secrets(block))

    def _add(self, interface: Interface) -> None:
        count = len(self._interfaces)
        if count == len(self._table):
            self._table = np.concatenate([self._table, np.empty_like(self._table)])
        self._table[count] = interface_row(interface)
        self._interfaces.append(interface)
