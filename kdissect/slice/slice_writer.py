"""The second reading: packets that match are copied to a pcapng file, one split after the other.

In come a selection and the captures, out goes a file. An interface is described when its first packet comes,
so interfaces without packets are left out. Packets stay in the order in which kdissect reads them: file by
file, by the time of their first packets.
"""

from dataclasses import dataclass
from typing import IO

from kdissect.capture.formats.record_table import CAPTURED, ORIGINAL, TIME_NS
from kdissect.capture.index.index import FileIndex
from kdissect.capture.index.splits import CaptureFormat, EndsBefore, Split
from kdissect.capture.storage import CaptureStorage, open_storage
from kdissect.slice.packet_match import MatchedPacket, PacketMatcher
from kdissect.slice.packet_rewrite import PacketRewriter
from kdissect.slice.packet_selection import PacketSelection
from kdissect.slice.pcapng_writer import (
    FLAGS,
    comment_option,
    interface_block,
    names_block,
    packet_block,
    secrets_block,
    section_block,
)
from kdissect.slice.session_secrets import HELLO_BYTES, SessionSecrets
from kdissect.slice.source_blocks import read_interface_info, read_names, read_packet_block
from kdissect.streams.flow_state import PACKET_BITS


@dataclass(slots=True)
class SliceCounts:
    """Counts of what was written."""

    packets: int = 0
    bytes: int = 0
    interfaces: int = 0
    secret_sessions: int = 0


class SliceWriter:
    """A slice in the making."""

    def __init__(
        self,
        out: IO[bytes],
        selection: PacketSelection,
        secrets: SessionSecrets | None = None,
        rewriter: PacketRewriter | None = None,
    ) -> None:
        """Begin a slice.

        `secrets` of its TLS sessions are written if they are given. With a `rewriter`, packets are written as
        it returns them, and no texts of the captures.
        """
        self._out = out
        self._comments = selection.comments
        self._matcher = PacketMatcher(selection.occupants)
        self._secrets, self._rewriter = secrets, rewriter
        self._interfaces: dict[tuple[str, int], int] = {}
        self._hosts = frozenset(host for ends in selection.occupants for host in (ends.a_host, ends.b_host))
        self._named: set[tuple[int, bytes]] = set()
        self.counts = SliceCounts()

    def write(self, files: tuple[FileIndex, ...], ends_before: EndsBefore | None = None) -> None:
        """Copy what matches from all files, until reading `ends_before` a split.

        Raise OSError if a file cannot be read or the slice written.
        """
        self._out.write(section_block())
        for file in files:
            if not file.splits:
                continue
            with open_storage(file.splits[0].path) as source:
                behind = 0
                for split in file.splits:
                    if ends_before and ends_before(split):
                        return
                    self._copy_names(source, split, behind, split.start)
                    behind = split.stop
                    for packet in self._matcher.packets_of(split, source):
                        self._copy_packet(source, split, packet)
                self._copy_names(source, file.splits[-1], behind, source.size)

    def _copy_packet(self, source: CaptureStorage, split: Split, packet: MatchedPacket) -> None:
        found = read_packet_block(source, split, packet.record)
        if len(found.data) < packet.record[CAPTURED]:
            return  # the file has become shorter
        interface = self._interface(source, split, found.interface)
        if self._secrets is not None and packet.payload:
            lines = self._secrets.lines_for(found.data[packet.payload : packet.payload + HELLO_BYTES])
            if lines:
                self._out.write(secrets_block(lines))
                self.counts.secret_sessions += 1
        number = split.index << PACKET_BITS | packet.number
        data, original, kept = found.data, packet.record[ORIGINAL], found.options
        if self._rewriter is not None:
            link_type = split.interfaces[found.interface].link_type
            data, original = self._rewriter.rewrite(packet, data, original, link_type, number)
            kept = tuple(option for option in kept if option[0] == FLAGS)
        options = (*kept, *map(comment_option, self._comments.of(number)))
        self._out.write(packet_block(interface, packet.record[TIME_NS], data, original, options))
        self.counts.packets += 1
        self.counts.bytes += len(data)

    def _interface(self, source: CaptureStorage, split: Split, number: int) -> int:
        """Return the number of an interface in the slice, where it is described on its first use."""
        interface = split.interfaces[number]
        key = (split.path, interface.defined_at)
        if key not in self._interfaces:
            info = read_interface_info(source, split, interface)
            if self._rewriter is not None:
                info = info._replace(name="", description="")
            self._out.write(interface_block(info))
            self._interfaces[key] = len(self._interfaces)
            self.counts.interfaces += 1
        return self._interfaces[key]

    def _copy_names(self, source: CaptureStorage, split: Split, start: int, stop: int) -> None:
        """Copy names of the hosts of the slice that lie between two splits, each once."""
        if split.format is not CaptureFormat.PCAPNG or not self._hosts or self._rewriter is not None:
            return
        new = dict.fromkeys(read_names(source, split, start, stop, self._hosts))
        records = [record for record in new if record not in self._named]
        if records:
            self._out.write(names_block(records))
            self._named.update(records)
