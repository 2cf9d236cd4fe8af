"""Checksums and options of rewritten packets, as scapy computes and reads them."""

from socket import AF_INET6, inet_pton

import pytest
from scapy.compat import raw
from scapy.layers.inet import IP, TCP
from scapy.layers.inet6 import HAO, IPv6, IPv6ExtHdrDestOpt, IPv6ExtHdrRouting
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

from kdissect.slice.packet_match import MatchedPacket
from kdissect.slice.packet_rewrite import PacketRewriter, StreamFacts
from kdissect.slice.same_length_names import SameLengthPseudonyms
from kdissect.slice.stream_overlay import PlainParts, StreamOverlay

SECRET = b"secret bytes that were captured"
OPTIONS = [("MSS", 1460), ("Timestamp", (7, 8)), (253, b"who"), ("EOL", None)]


def rewritten(packet: Packet, sequence: int = 1000) -> bytes:
    overlay = StreamOverlay()
    overlay.add((3, 0), 0, 20, b"twenty bytes instead")
    rewriter = PacketRewriter(
        SameLengthPseudonyms.new("a key"), overlay, PlainParts(), {3: StreamFacts(3, (1000, 1), False)}
    )
    data = raw(packet)
    payload = data.index(SECRET)
    matched = MatchedPacket(1, (), payload, len(SECRET), 0, sequence, 0x18, 0, 3)
    out, original = rewriter.rewrite(matched, data, len(data), 1, 1)
    overlay.close()
    assert len(out) == original == len(data)
    return out


@pytest.mark.slow
def test_checksums_are_those_of_scapy() -> None:
    for network in (IP(src="10.9.8.7", dst="10.9.8.6", options=b"\x44\x04\x05\x00"),
                    IPv6(src="2001:db8::1", dst="2001:db8::2")):  # fmt: skip
        packet = Ether(src="52:54:00:12:34:56") / network / TCP(seq=1000, options=OPTIONS) / Raw(SECRET)
        out = rewritten(packet)
        assert SECRET[:6] not in out
        assert b"who" not in out
        again = Ether(out)
        checksums = [layer.chksum for layer in (again[1], again[TCP]) if hasattr(layer, "chksum")]
        for layer in (again[1], again[TCP]):
            if hasattr(layer, "chksum"):
                del layer.chksum
        fresh = Ether(raw(again))
        assert checksums == [layer.chksum for layer in (fresh[1], fresh[TCP]) if hasattr(layer, "chksum")]
        assert bytes(again[TCP].payload) == b"\0\0\0\x14twenty bytes instead" + b"\xff" * (len(SECRET) - 24)
        assert dict(again[TCP].options)["MSS"] == 1460


@pytest.mark.parametrize("tags", ["88470001014000000000", "88e700000007", "810000010800"])
def test_addresses_of_frames_inside_other_frames_are_replaced(tags: str) -> None:
    """A pseudowire with a control word, a provider's backbone, and a mere VLAN, which has no second frame."""
    outer, inner = bytes.fromhex("525400123456525400123457"), bytes.fromhex("525400abcdef525400abcd01")
    is_frame = not tags.startswith("8100")
    packet = IP(src="10.9.8.7", dst="10.9.8.6") / TCP(seq=1000) / Raw(SECRET)
    frame = outer + bytes.fromhex(tags) + (inner + b"\x08\0" if is_frame else b"")
    out = rewritten(Raw(frame + raw(packet)))
    assert outer[:6] not in out
    assert inner[:4] not in out
    assert out[12 : 12 + len(tags) // 2].hex() == tags
    assert out[len(frame) - 2 : len(frame)] == b"\x08\0"
    assert SECRET not in out


@pytest.mark.slow
def test_addresses_in_extension_headers_are_gone() -> None:
    way, home = "2001:db8:7::77", "2001:db8:8::88"
    headers = IPv6ExtHdrRouting(addresses=[way, home], segleft=2) / IPv6ExtHdrDestOpt(options=[HAO(hoa=home)])
    network = IPv6(src="2001:db8::1", dst="2001:db8::2") / headers
    out = rewritten(Ether() / network / TCP(seq=1000) / Raw(SECRET))
    for address in (way, home):
        assert inet_pton(AF_INET6, address) not in out
    again = Ether(out)
    assert (again[IPv6ExtHdrRouting].segleft, again[TCP].seq) == (0, 1000)
    checksum = again[TCP].chksum
    del again[TCP].chksum
    assert Ether(raw(again))[TCP].chksum == checksum


def test_a_checksum_of_tcp_may_be_zero() -> None:
    """It is written as zero. Only UDP sends 0xFFFF in its place."""

    def checksum(window: int) -> int:
        packet = Ether() / IP(src="10.9.8.7", dst="10.9.8.6") / TCP(seq=1000, window=window) / Raw(SECRET)
        return int(Ether(rewritten(packet))[TCP].chksum)

    to_zero = checksum(0)  # the window is one of the numbers that are summed
    assert 0 < to_zero < 0xFFFF
    assert checksum(to_zero) == 0


def test_padding_and_bytes_outside_the_stream_are_gone() -> None:
    packet = Ether() / IP(src="10.9.8.7", dst="10.9.8.6") / TCP(seq=5000) / Raw(SECRET)
    data = raw(packet) + b"padding with names"
    overlay = StreamOverlay()
    rewriter = PacketRewriter(
        SameLengthPseudonyms.new("a key"), overlay, PlainParts(), {3: StreamFacts(3, (1000, 1), False)}
    )
    matched = MatchedPacket(1, (), data.index(SECRET), len(SECRET), 0, 5000, 0x18, 0, 3)
    out, _ = rewriter.rewrite(matched, data, len(data), 1, 1)
    assert out.endswith(b"\xff" * len(SECRET) + bytes(18))
    later = MatchedPacket(1, (), 0)
    assert rewriter.rewrite(later, data, len(data), 1, 1)[0].count(b"\xff") >= len(SECRET) + 18
    assert set(rewriter.rewrite(later, data, len(data), 250, 1)[0]) == {255}
    overlay.close()
