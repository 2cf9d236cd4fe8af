"""The IP headers of packets, in tunnels and behind extension headers."""

from scapy.compat import raw
from scapy.layers.inet import GRE, IP, TCP, UDP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrDestOpt, IPv6ExtHdrFragment
from scapy.layers.l2 import Dot1Q, Ether
from scapy.layers.vxlan import VXLAN
from scapy.packet import Raw

from kdissect.slice.packet_layers import IpLayer, ip_layers

SEGMENT = TCP(sport=1, dport=9092) / Raw(b"x")


def test_headers_from_the_outermost_to_the_innermost() -> None:
    inner = Ether() / IP(dst="10.0.0.1") / SEGMENT
    packet = raw(Ether() / Dot1Q(vlan=3) / IP(dst="1.2.3.4") / UDP(dport=4789) / VXLAN() / inner)
    assert ip_layers(packet, 1) == [IpLayer(18, 38, 17, False, False), IpLayer(68, 88, 6, False, False)]
    packet = raw(IP(dst="1.2.3.4") / GRE() / IPv6() / IPv6ExtHdrDestOpt() / SEGMENT)
    assert ip_layers(packet, 101) == [IpLayer(0, 20, 47, False, False), IpLayer(24, 72, 6, False, False)]


def test_fragments() -> None:
    first = raw(IP(dst="1.2.3.4", flags="MF") / SEGMENT)
    later = raw(IP(dst="1.2.3.4", frag=5, proto=6) / Raw(b"rest of it"))
    assert [(one.is_fragment, one.is_later) for one in ip_layers(first, 101)] == [(True, False)]
    assert [(one.is_fragment, one.is_later) for one in ip_layers(later, 101)] == [(True, True)]
    sixth = raw(IPv6() / IPv6ExtHdrFragment(offset=3, nh=6) / Raw(b"rest of it"))
    assert [(one.is_fragment, one.is_later) for one in ip_layers(sixth, 101)] == [(True, True)]


def test_other_packets_have_none() -> None:
    assert ip_layers(raw(Ether(type=0x0806) / Raw(b"who has")), 1) == []
    assert ip_layers(b"", 1) == []
    assert ip_layers(b"\x45", 101) == []
    assert ip_layers(bytes(60), 9999) == []
