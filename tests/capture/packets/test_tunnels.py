"""TCP inside other packets: scapy builds each encapsulation, alone and inside others."""

import random
import struct
from pathlib import Path
from typing import Any

import pytest
from scapy.compat import raw
from scapy.contrib.erspan import ERSPAN_II, ERSPAN_III
from scapy.contrib.geneve import GENEVE, GeneveOptions
from scapy.contrib.gtp import (
    GTP_U_Header,
    GTPPDUSessionContainer,
)
from scapy.contrib.mpls import MPLS
from scapy.layers.inet import GRE, IP, TCP, UDP, IPOption
from scapy.layers.inet6 import IPv6, IPv6ExtHdrDestOpt, IPv6ExtHdrHopByHop, IPv6ExtHdrRouting
from scapy.layers.l2 import Dot1AD, Dot1Q, Ether
from scapy.layers.ppp import PPP, PPPoE
from scapy.layers.vxlan import VXLAN
from scapy.packet import Packet, Raw

from tests.capture.outcome import outcome
from tests.helpers.crafted_packets import pcap

PAYLOAD = b"what the client said"
OUTER = IP(src="172.16.0.1", dst="172.16.0.2", id=99)
OUTER_6 = IPv6(src="fd00::1", dst="fd00::2")


def segment(v6: bool = False) -> Packet:
    network = IPv6(src="2001:db8::1", dst="2001:db8::2") if v6 else IP(src="10.0.0.1", dst="10.0.0.2")
    return network / TCP(sport=40000, dport=9092, seq=1000, ack=7, flags="PA") / Raw(PAYLOAD)


def udp(port: int) -> Packet:
    return UDP(sport=5555, dport=port)


def framed(inner: Packet) -> Packet:
    return Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / inner


def option() -> GeneveOptions:
    return GeneveOptions(classid=0x0102, type=0x80, data=b"12345678")


# Each puts an IP packet into another packet.
TUNNELS = {
    "VXLAN": lambda inner: OUTER / udp(4789) / VXLAN(vni=7, flags="Instance") / framed(inner),
    "VXLAN on Linux's old port": lambda inner: (
        OUTER / udp(8472) / VXLAN(vni=7, flags="Instance") / framed(inner)
    ),
    "VXLAN over IPv6": lambda inner: OUTER_6 / udp(4789) / VXLAN(vni=7, flags="Instance") / framed(inner),
    "VXLAN, VLAN inside": lambda inner: (
        OUTER / udp(4789) / VXLAN(vni=7, flags="Instance") / Ether() / Dot1Q(vlan=5) / inner
    ),
    "Geneve": lambda inner: OUTER / udp(6081) / GENEVE(vni=8, proto=0x6558) / framed(inner),
    "Geneve with options": lambda inner: (
        OUTER / udp(6081) / GENEVE(vni=8, proto=0x6558, options=[option(), option()]) / framed(inner)
    ),
    "Geneve, IP": lambda inner: OUTER / udp(6081) / GENEVE(vni=8) / inner,
    "GRE": lambda inner: OUTER / GRE() / inner,
    "GRE with everything": lambda inner: (
        OUTER / GRE(chksum_present=1, key_present=1, seqnum_present=1, key=5, sequence_number=6) / inner
    ),
    "GRE with a key": lambda inner: OUTER / GRE(key_present=1, key=5) / inner,
    "GRE, Ethernet": lambda inner: OUTER / GRE(proto=0x6558, key_present=1, key=5) / framed(inner),
    "GRE, MPLS": lambda inner: OUTER / GRE(proto=0x8847) / MPLS(label=3, s=1) / inner,
    "ERSPAN I": lambda inner: OUTER / GRE(proto=0x88BE) / framed(inner),
    "ERSPAN II": lambda inner: (
        OUTER / GRE(proto=0x88BE, seqnum_present=1) / ERSPAN_II(session_id=3) / framed(inner)
    ),
    "ERSPAN III": lambda inner: OUTER / GRE(proto=0x22EB, seqnum_present=1) / ERSPAN_III() / framed(inner),
    "ERSPAN III of a platform": lambda inner: (
        OUTER
        / GRE(proto=0x22EB, seqnum_present=1)
        / Raw(raw(ERSPAN_III())[:11] + b"\x01" + bytes(8) + raw(framed(inner)))
    ),
    "IP in IP": lambda inner: OUTER / inner,
    "IP in IPv6": lambda inner: OUTER_6 / inner,
    "GTP-U": lambda inner: OUTER / udp(2152) / GTP_U_Header(teid=9, gtp_type=255, length=None) / inner,
    "GTP-U with a sequence number": lambda inner: (
        OUTER / udp(2152) / GTP_U_Header(teid=9, gtp_type=255, S=1, seq=77) / inner
    ),
    "GTP-U with an extension": lambda inner: (
        OUTER
        / udp(2152)
        / GTP_U_Header(teid=9, gtp_type=255, E=1, next_ex=0x85)
        / GTPPDUSessionContainer(type=1, QFI=9)
        / inner
    ),
    "MPLS in UDP": lambda inner: OUTER / udp(6635) / MPLS(label=3, s=1) / inner,
    "Ethernet in IP": lambda inner: (
        IP(src="1.1.1.1", dst="1.1.1.2", proto=97) / Raw(b"\x30\0" + raw(framed(inner)))
    ),
}

# Each puts an IP packet on the wire.
WIRES = {
    "Ethernet": framed,
    "QinQ": lambda inner: Ether() / Dot1AD(vlan=2) / Dot1Q(vlan=3) / inner,
    "MPLS": lambda inner: Ether(type=0x8847) / MPLS(label=1, s=0) / MPLS(label=2, s=1) / inner,
    "Ethernet in MPLS": lambda inner: (
        Ether(type=0x8847) / MPLS(label=2, s=1) / Raw(bytes(4) + raw(framed(inner)))
    ),
    "Ethernet in MPLS without a control word": lambda inner: (
        Ether(type=0x8847) / MPLS(label=2, s=1) / Raw(raw(framed(inner)))
    ),
    "PPPoE": lambda inner: Ether() / PPPoE(sessionid=2) / PPP() / inner,
    "port extender": lambda inner: Ether(type=0x893F) / Raw(b"\0\1\0\2\0\3" + raw(framed(inner))[12:]),
    "virtual port": lambda inner: Ether(type=0x8926) / Raw(b"\x80\1\0\2" + raw(framed(inner))[12:]),
    "backbone": lambda inner: Ether(type=0x88E7) / Raw(b"\0\0\0\7" + raw(framed(inner))),
}

EXTENDED = {
    "hop by hop": IPv6ExtHdrHopByHop(),
    "destination": IPv6ExtHdrDestOpt(),
    "routing": IPv6ExtHdrRouting(addresses=["::1"]),
}


def found(folder: Path, *packets: bytes) -> dict[str, Any]:
    path = folder / "x.pcap"
    path.write_bytes(pcap([(1, 10 * number, data) for number, data in enumerate(packets)]))
    return outcome(path)


def assert_found(folder: Path, packet: Packet, *, v6: bool = False, tunnelled: bool = True) -> None:
    """Check that the capture of this one packet holds the segment, and nothing but its payload."""
    data = raw(packet)
    seen = found(folder, data + b"\xee" * 9)  # padding never becomes payload
    host = "20010db80000000000000000000000{:02x}" if v6 else "00000000000000000000ffff0a0000{:02x}"
    (who,) = seen["connections"]
    assert who == f"{host.format(1)} 40000 {host.format(2)} 9092"
    (one,) = seen["connections"][who]
    assert one[2:7] == [24 + 16 + data.index(PAYLOAD), len(PAYLOAD), 0, 1000, 7]
    assert seen["counts"][11] == tunnelled


@pytest.mark.parametrize("v6", [False, True], ids=["IPv4", "IPv6"])
@pytest.mark.parametrize("name", TUNNELS)
@pytest.mark.slow
def test_each_tunnel(tmp_path: Path, name: str, v6: bool) -> None:
    assert_found(tmp_path, framed(TUNNELS[name](segment(v6))), v6=v6)


@pytest.mark.parametrize("name", WIRES)
def test_each_wire(tmp_path: Path, name: str) -> None:
    assert_found(tmp_path, WIRES[name](segment()), tunnelled=False)


@pytest.mark.parametrize("first", [0x00, 0x0C, 0x10, 0x3C, 0x40, 0x44, 0x4A, 0x60, 0x6C, 0x84, 0xFE], ids=hex)
def test_ethernet_right_behind_labels(tmp_path: Path, first: int) -> None:
    """The frame begins with an address; its first bits may be a control word or an IP version."""
    frame = Ether(dst=f"{first:02x}:00:05:00:11:22", src="00:00:5e:00:53:01")
    for tagged in (frame, frame / Dot1Q(vlan=7), frame / Dot1AD(vlan=7) / Dot1Q(vlan=8)):
        for v6 in (False, True):
            labels = Ether(type=0x8847) / MPLS(label=1, s=0) / MPLS(label=2, s=1)
            assert_found(tmp_path, labels / Raw(raw(tagged / segment(v6))), v6=v6, tunnelled=False)


@pytest.mark.parametrize("kept", [200, 90])
def test_ip_right_behind_labels_never_passes_for_ethernet(tmp_path: Path, kept: int) -> None:
    """Each has an address, with IP behind it, that looks like an ethertype at the place of one."""
    ports = TCP(sport=40000, dport=9092, seq=1000, ack=7, flags="PA") / Raw(PAYLOAD * 5)
    option = IPOption(b"\x94\4\0\0")  # router alert
    hosts = {
        "8.0.69.1": IP(src="8.0.69.1", dst="9.9.9.9", options=option) / ports,
        "134.221.96.1": IP(src="134.221.96.1", dst="9.9.9.9", options=option) / ports,
        "2001:db8:800:4500::1": IPv6(src="2001:db8:800:4500::1", dst="::2") / ports,
        "2001:db8:86dd:6000::1": IPv6(src="2001:db8:86dd:6000::1", dst="::2") / ports,
    }
    for packet in hosts.values():
        data = raw(Ether(type=0x8847) / MPLS(label=2, s=1) / packet)
        path = tmp_path / "x.pcap"
        record = struct.pack("<IIII", 1, 0, min(kept, len(data)), len(data))
        path.write_bytes(pcap([]) + record + data[:kept])
        assert len(outcome(path)["connections"]) == 1  # type: ignore[arg-type]


@pytest.mark.parametrize("name", EXTENDED)
def test_extension_headers(tmp_path: Path, name: str) -> None:
    inner = segment(v6=True)
    packet = framed(IPv6(src=inner.src, dst=inner.dst) / EXTENDED[name] / inner[TCP])
    assert_found(tmp_path, packet, v6=True, tunnelled=False)


@pytest.mark.slow
def test_tunnels_in_tunnels(tmp_path: Path) -> None:
    chance = random.Random(3)
    for _ in range(60):
        packet, v6 = segment(), False
        for name in chance.sample(list(TUNNELS), chance.randrange(2, 5)):
            packet = TUNNELS[name](packet)
        wrapped = WIRES[chance.choice(list(WIRES))](packet)
        if raw(wrapped).index(PAYLOAD) < 500:
            assert_found(tmp_path, wrapped, v6=v6)


def test_nesting_is_bounded(tmp_path: Path) -> None:
    packet = segment()
    for depth in range(1, 12):
        packet = OUTER / packet
        seen = found(tmp_path, raw(framed(packet)))
        assert bool(seen["connections"]) == (depth <= 8)
        assert sum(seen["counts"][1:7]) == 1


def test_what_is_no_tunnel_stays_other(tmp_path: Path) -> None:
    packets = [
        OUTER / udp(53) / Raw(bytes(40)),
        OUTER / udp(4789) / Raw(bytes(60)),  # no VNI
        OUTER / udp(2152) / Raw(b"\x32\x01" + bytes(40)),  # an echo request of GTP
        OUTER / GRE(proto=0x880B) / Raw(bytes(20)),
        OUTER / GRE(proto=0x0806) / Raw(bytes(20)),
        OUTER / udp(4789) / VXLAN(vni=7, flags="Instance") / Ether(type=0x0806) / Raw(bytes(40)),
        IP(src="1.1.1.1", dst="1.1.1.2", proto=50) / Raw(bytes(40)),
    ]
    seen = found(tmp_path, *(raw(framed(packet)) for packet in packets))
    assert seen["counts"][:4] == [len(packets), 0, 0, len(packets)]


def test_cut_and_broken_tunnels_never_leave_the_packet(tmp_path: Path) -> None:
    chance = random.Random(4)
    good = [raw(framed(tunnel(segment()))) for tunnel in TUNNELS.values()]
    packets = []
    for _ in range(2000):
        data = bytearray(chance.choice(good))
        for _ in range(chance.randrange(4)):
            data[chance.randrange(12, len(data))] = chance.randrange(256)
        packets.append(bytes(data[: chance.randrange(len(data) + 1)]))
    seen = found(tmp_path, *packets)
    assert sum(seen["counts"][1:7]) == len(packets)
    size = (tmp_path / "x.pcap").stat().st_size
    for described in seen["connections"].values():  # type: ignore[attr-defined]
        assert all(0 <= one[2] <= one[2] + one[3] <= size for one in described)
