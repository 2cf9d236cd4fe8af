"""Packets without names: addresses replaced, payload from the anonymized streams, checksums right.

In comes a packet as captured with the connection that it belongs to, out goes the packet that is written.

- Addresses of link layers and of IP become others, in tunnels on every layer.
- Payload comes from the overlay. Captured payload is never copied.
- A packet with plaintext of TLS gets that, and sequence numbers that count plaintext; a packet that only
  brought part of a record, or nothing new, has no payload. Acknowledgments count what was there by then.
- The bytes behind the IP packet, such as padding, become zeros; so do options of IP and of TCP that may
  identify somebody, and what extension headers of IPv6 hold.
- Lengths of IP and UDP and checksums of IP, TCP and UDP are written anew. A checksum over bytes that were not
  captured counts them as zeros, and that of a fragmented segment stays as it was.
"""

import struct
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from kdissect.capture.packets.headers import CONTROL_SYN, TCP
from kdissect.capture.packets.link_layer import LINK_TABLE, SKIP
from kdissect.capture.packets.tunnels import UDP
from kdissect.slice.blank_records import BLANK
from kdissect.slice.packet_layers import IpLayer, clear_extensions, ip_layers
from kdissect.slice.packet_match import MatchedPacket
from kdissect.slice.same_length_names import SameLengthPseudonyms
from kdissect.slice.stream_overlay import PlainParts, StreamOverlay

ETHERNET, COOKED, COOKED_2 = 1, 113, 276
MACS = {ETHERNET: ((0, 6), (6, 6)), COOKED: ((6, 8),), COOKED_2: ((12, 8),)}
"""Place of a link layer's addresses, by link type: offset and length."""

ETHERTYPES = (b"\x08\x00", b"\x86\xdd")
VLANS = (b"\x81\x00", b"\x88\xa8")
KEPT_OPTIONS = frozenset((0, 1, 2, 3, 4, 5, 8))  # of TCP: end, no-op, MSS, window scale, SACK twice, times
SEQUENCE_SPACE = 1 << 32
ADDRESSES_KEPT = 1 << 12
MOST_IP_BYTES = 0xFFFF
NO_CHECKSUM_OF_ZERO = 0xFFFF  # in its place, since 0 says that there is no checksum: UDP only (RFC 768)


class StreamFacts(NamedTuple):
    """A connection that is rewritten, and the first sequence number of each stream (A to B comes first)."""

    row: int
    first_sequence: tuple[int, int]
    is_tls: bool


class RewrittenPacket(NamedTuple):
    """The packet that is written, and its length on the wire."""

    data: bytes
    original: int


class PacketRewriter:
    """Rewrites the packets of connections, in the order in which they were captured."""

    def __init__(
        self, pseudonyms: SameLengthPseudonyms, overlay: StreamOverlay, plain: PlainParts,
        connections: dict[int, StreamFacts],
    ) -> None:  # fmt: skip
        self._overlay, self._plain = overlay, plain
        self._mac, self._ipv4, self._ipv6 = map(
            lru_cache(ADDRESSES_KEPT), (pseudonyms.mac, pseudonyms.ipv4, pseudonyms.address)
        )
        self._connections = connections
        self._latest: dict[tuple[int, int], int] = {}  # position that each stream has come to

    def rewrite(
        self, packet: MatchedPacket, data: bytes, original: int, link_type: int, number: int
    ) -> RewrittenPacket:
        """Return what is written of a packet; `number` is that of the packet among all splits."""
        out = bytearray(data)
        layers = ip_layers(data, link_type)
        if not layers:
            return RewrittenPacket(BLANK * len(data), original)
        for offset, size in MACS.get(link_type, ()):
            out[offset : offset + size] = self._mac(bytes(out[offset : offset + size]))
        behind_outer = (int(LINK_TABLE[link_type, SKIP]), *(layer.behind for layer in layers))
        for behind, inner in zip(behind_outer, layers, strict=False):
            self._tunnelled_macs(out, behind, inner.start)
        for layer in layers:
            self._addresses(out, layer)
        facts = self._connections.get(packet.connection)
        grown = 0
        if facts is None or packet.payload == 0 or layers[-1].protocol != TCP:
            out[layers[-1].behind :] = BLANK * (len(out) - layers[-1].behind)
        else:
            grown = self._segment(out, packet, facts, layers[-1].behind, number)
        _write_lengths(out, layers, grown)
        _write_checksums(out, layers)
        is_cut = facts is None or not facts.is_tls
        return RewrittenPacket(bytes(out), max(len(out), original) if is_cut else len(out))

    def _segment(
        self, out: bytearray, packet: MatchedPacket, facts: StreamFacts, tcp: int, number: int
    ) -> int:
        """Write payload, numbers and options of a segment. Return by how many bytes it has grown."""
        _clean_options(out, tcp + 20, packet.payload)
        stream, back = (facts.row, packet.side), (facts.row, 1 - packet.side)
        begin, stop = packet.payload, packet.payload + packet.captured
        if not facts.is_tls:
            sequence = packet.sequence + (packet.control & CONTROL_SYN != 0)
            position = self._position(stream, facts, sequence)
            out[begin:stop] = self._overlay.read(stream, position, packet.captured)
            out[stop:] = bytes(len(out) - stop)
            return 0
        part = self._plain.of(facts.row, packet.side, number)
        position = self._latest.get(stream, 0)
        body = b""
        if part is not None:
            position, body = part.start, self._overlay.read(stream, part.start, part.length)
            self._latest[stream] = part.start + part.length
        out[begin:] = body
        if not packet.control & CONTROL_SYN:
            first, other = facts.first_sequence[packet.side], facts.first_sequence[1 - packet.side]
            answered = (other + self._latest.get(back, 0)) % SEQUENCE_SPACE
            struct.pack_into(">II", out, tcp + 4, (first + position) % SEQUENCE_SPACE, answered)
        return len(body) - packet.captured - packet.missing

    def _position(self, stream: tuple[int, int], facts: StreamFacts, sequence: int) -> int:
        """Return the position in a stream of a sequence number, the one nearest to where the stream is."""
        latest = self._latest.get(stream, 0)
        low = (sequence - facts.first_sequence[stream[1]]) % SEQUENCE_SPACE
        half = SEQUENCE_SPACE // 2
        position = latest + (low - latest + half) % SEQUENCE_SPACE - half
        self._latest[stream] = max(latest, position)
        return position

    def _addresses(self, out: bytearray, layer: IpLayer) -> None:
        if out[layer.start] >> 4 == 4:
            for offset in (layer.start + 12, layer.start + 16):
                out[offset : offset + 4] = self._ipv4(bytes(out[offset : offset + 4]))
            options = slice(layer.start + 20, layer.start + (out[layer.start] & 15) * 4)
            out[options] = b"\1" * len(out[options])
        else:
            for offset in (layer.start + 8, layer.start + 24):
                out[offset : offset + 16] = self._ipv6(bytes(out[offset : offset + 16]))
            clear_extensions(np.frombuffer(out, np.uint8), layer.start, layer.behind)

    def _tunnelled_macs(self, out: bytearray, behind: int, inner: int) -> None:
        """Replace the addresses of an Ethernet header right before an inner IP header, if there is one."""
        offset = inner - 14
        while offset >= behind and bytes(out[offset + 8 : offset + 10]) in VLANS:
            offset -= 4
        if offset >= behind and bytes(out[inner - 2 : inner]) in ETHERTYPES:
            for begin in (offset, offset + 6):
                out[begin : begin + 6] = self._mac(bytes(out[begin : begin + 6]))


def _clean_options(out: bytearray, start: int, stop: int) -> None:
    """Write zeros into the options of TCP that are not known to be harmless."""
    while start + 1 < stop and out[start]:
        size = 1 if out[start] == 1 else max(2, out[start + 1])
        if out[start] not in KEPT_OPTIONS:
            out[start + 2 : min(start + size, stop)] = bytes(max(0, min(start + size, stop) - start - 2))
        start += size
    out[start:stop] = bytes(max(0, stop - start))


def _write_lengths(out: bytearray, layers: list[IpLayer], grown: int) -> None:
    """Add to the lengths of IP and UDP what the payload has grown by; 0 stands for what does not fit."""
    if not grown:
        return
    for layer in layers:
        fields = [layer.start + (2 if out[layer.start] >> 4 == 4 else 4)]
        fields += [layer.behind + 4] if layer.protocol == UDP else []
        for offset in fields:
            (length,) = struct.unpack_from(">H", out, offset)
            if length:
                new = length + grown
                struct.pack_into(">H", out, offset, new if 0 <= new <= MOST_IP_BYTES else 0)


def _write_checksums(out: bytearray, layers: list[IpLayer]) -> None:
    """Write the checksums of all layers, the innermost first, since the outer ones cover it."""
    for layer in reversed(layers):
        stop = _stop(out, layer)
        offset = {TCP: layer.behind + 16, UDP: layer.behind + 6}.get(layer.protocol)
        if offset is not None and offset + 2 <= stop and not layer.is_fragment:
            unset = layer.protocol == UDP and not any(out[offset : offset + 2])
            out[offset : offset + 2] = b"\0\0"
            if not unset:
                body = bytes(out[layer.behind : stop])
                checksum = _checksum(_pseudo_header(out, layer, stop) + body)
                if layer.protocol == UDP:
                    checksum = checksum or NO_CHECKSUM_OF_ZERO
                struct.pack_into(">H", out, offset, checksum)
        if out[layer.start] >> 4 == 4:
            header = slice(layer.start, layer.start + (out[layer.start] & 15) * 4)
            out[layer.start + 10 : layer.start + 12] = b"\0\0"
            struct.pack_into(">H", out, layer.start + 10, _checksum(bytes(out[header])))


def _stop(out: bytearray, layer: IpLayer) -> int:
    """Return where an IP packet ends, as far as it was captured."""
    return min(len(out), _wire_stop(out, layer))


def _wire_stop(out: bytearray, layer: IpLayer) -> int:
    if out[layer.start] >> 4 == 4:
        (length,) = struct.unpack_from(">H", out, layer.start + 2)
        return layer.start + length if length else len(out)
    (length,) = struct.unpack_from(">H", out, layer.start + 4)
    return layer.start + 40 + length if length else len(out)


def _pseudo_header(out: bytearray, layer: IpLayer, stop: int) -> bytes:
    """Return what checksums of TCP and UDP cover beside the segment (RFC 9293, RFC 8200)."""
    length = max(stop, _wire_stop(out, layer)) - layer.behind
    if out[layer.start] >> 4 == 4:
        ends = bytes(out[layer.start + 12 : layer.start + 20])
        return ends + struct.pack(">BBH", 0, layer.protocol, length & 0xFFFF)
    return bytes(out[layer.start + 8 : layer.start + 40]) + struct.pack(">IHBB", length, 0, 0, layer.protocol)


def _checksum(data: bytes) -> int:
    """Return the checksum of the Internet: ones' complement of the ones' complement sum (RFC 1071)."""
    total = int.from_bytes(data + bytes(len(data) % 2)) % 0xFFFF
    return ~(total or (0xFFFF if any(data) else 0)) & 0xFFFF
