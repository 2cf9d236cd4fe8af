"""The blocks of a pcapng file that describe others: sections, interfaces, statistics, secrets.

A record reader stops at such blocks. `SectionReader` reads them one by one and keeps the current section and
interfaces. Hostile files may consist of descriptions only, so their number is limited.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

import numpy as np

from kdissect.array_types import Int64s
from kdissect.capture.formats import pcapng
from kdissect.capture.index.splits import (
    INTERFACE_FIELDS,
    Interface,
    interface_row,
)
from kdissect.capture.storage import CaptureStorage

MOST_BLOCKS = 100_000  # descriptions in one file; capture tools write far fewer
MOST_BLOCK_BYTES = 1 << 20  # read of one description; later options are ignored


class BlockOutcome(Enum):
    """How reading a block ended."""

    WHOLE = auto()
    CUT = auto()
    DAMAGED = auto()
    TOO_MANY = auto()


@dataclass(frozen=True, slots=True)
class SectionState:
    """State that reading from a position needs: the byte order, and the interfaces described so far."""

    big_endian: bool
    interfaces: tuple[Interface, ...]


class SectionReader:
    """The current section while a file is read from some position on: interfaces, statistics and secrets."""

    def __init__(self, in_force: SectionState, blocks: int = 0) -> None:
        """Begin with a section state; `blocks` descriptions came before."""
        self.big_endian = in_force.big_endian
        self.secrets: list[pcapng.SecretsBlock] = []
        self.statistics: dict[tuple[int, int], pcapng.InterfaceStatistics] = {}
        """The last ones of each interface, by its section (0: the initial one) and its number."""
        self.begun = 0
        """Number of sections that began since."""
        self.first_begun: int | None = None
        """File offset of the first of them."""
        self.blocks = blocks
        self.described = False
        """True if a section or an interface was described since."""
        self._interfaces: list[Interface] = []
        self._frozen: tuple[Interface, ...] = ()
        self._table = np.empty((4, INTERFACE_FIELDS), dtype=np.int64)
        for interface in in_force.interfaces:
            self._add(interface)

    @property
    def interfaces(self) -> tuple[Interface, ...]:
        """The interfaces of this section that are described so far."""
        if len(self._frozen) != len(self._interfaces):
            self._frozen = tuple(self._interfaces)
        return self._frozen

    @property
    def in_force(self) -> SectionState:
        """The current state."""
        return SectionState(self.big_endian, self.interfaces)

    @property
    def table(self) -> Int64s:
        """The same interfaces as a table, as `splits.interface_table` returns it."""
        return self._table[: len(self._interfaces)]

    def read(
        self, source: CaptureStorage, position: int, size: int, before_section: Callable[[], None]
    ) -> tuple[BlockOutcome, int]:
        """Read the block at `position` of a file of `size` bytes.

        Return the outcome and the position behind the block. `before_section` is called before a block that
        ends the current section takes effect.
        """
        first = source.read(pcapng.SECTION_BYTES, position)
        opens = first[:4] == pcapng.SECTION_MAGIC
        if opens:
            if len(first) < pcapng.SECTION_BYTES:
                return BlockOutcome.CUT, position
            order = pcapng.section_order(first)
            if order is None:
                return BlockOutcome.DAMAGED, position
        else:
            order = self.big_endian
        kind, length = struct.unpack_from(">II" if order else "<II", first)
        stop = position + (length + 3 & ~3)
        if stop > size:
            return BlockOutcome.CUT, position  # a file that grows goes on here
        self.blocks += 1
        if self.blocks > MOST_BLOCKS:
            return BlockOutcome.TOO_MANY, position
        if opens:
            before_section()
            self.big_endian = order
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
