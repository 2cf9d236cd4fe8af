"""Link layers: every one leads to the IP header behind it, and bytes that are cut or lie are told apart."""

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdissect.array_types import Bytes
from kdissect.capture.packets.headers import (
    ACKNOWLEDGED,
    CONTROL,
    PAYLOAD,
    PAYLOAD_CAPTURED,
    PAYLOAD_MISSING,
    SEGMENT,
    SEQUENCE,
    SOURCE,
    SOURCE_PORT,
    TARGET,
    TARGET_PORT,
    WINDOW,
)
from kdissect.capture.packets.link_layer import (
    BACKBONE,
    BY_ETHERTYPE,
    CUT_OFF,
    IPV4,
    KIND,
    LINK_TABLE,
    LINK_TYPES,
    MPLS,
    NOT_IP,
    OLD_VLAN,
    OLDER_VLAN,
    PORT_EXTENDER,
    PROVIDER_VLAN,
    SKIP,
    VIRTUAL_PORT,
    VLAN,
    behind_ethernet,
    behind_link,
)
from kdissect.jit.decorators import jit_flat
from tests.capture.packets.link_frames import LINKS, V4, V6, read
from tests.helpers.crafted_packets import ACK, ethernet


def assert_whole(data: bytes, link_type: int = 1) -> None:
    """Check that the packet is read as V4 or V6 are."""
    what, out = read(data, link_type)
    assert what == SEGMENT
    packet = V4 if V4 in data else V6
    if packet is V4:
        assert out[SOURCE : SOURCE + 4] == [0, 0, 0xFFFF, 0x0A010203]
        assert out[TARGET : TARGET + 4] == [0, 0, 0xFFFF, 0xC0A80009]
    else:
        assert out[SOURCE : SOURCE + 4] == [0x20010DB8, 0, 0, 1]
        assert out[TARGET : TARGET + 4] == [0xFE800000, 0, 0, 2]
    assert (out[SOURCE_PORT], out[TARGET_PORT], out[SEQUENCE], out[ACKNOWLEDGED]) == (
        1234,
        9092,
        0xFFFFFFF0,
        77,
    )
    assert (out[CONTROL], out[WINDOW]) == (ACK | 8, 333)
    assert out[PAYLOAD] == data.index(b"payload")
    assert (out[PAYLOAD_CAPTURED], out[PAYLOAD_MISSING]) == (7, 0)


@pytest.mark.parametrize("name", LINKS)
def test_link_layers(name: str) -> None:
    link_type, data = LINKS[name]
    assert_whole(data, link_type)


def test_every_link_type_is_tested() -> None:
    assert {link_type for link_type, _ in LINKS.values()} == set(LINK_TYPES)


@jit_flat
def find_ip(data: Bytes, end: int, kind: int, type_at: int, skip: int) -> int:
    """Call `behind_link`, which only kernels may call, for the packet at data[0]."""
    return behind_link(data, 0, end, kind, type_at, skip)


@jit_flat
def find_behind_ethernet(data: Bytes, end: int) -> int:
    return behind_ethernet(data, 0, end)


def ip_at(data: bytes, link_type: int, end: int | None = None) -> int:
    """Return where the IP header begins, NOT_IP or CUT_OFF; only data[:end] may be looked at."""
    buffer = np.frombuffer(data[:end] + b"\xff" * 64, np.uint8)
    kind, type_at, skip = LINK_TABLE[link_type].tolist()
    return int(find_ip(buffer, len(data) if end is None else end, kind, type_at, skip))


def packet_in(data: bytes) -> int:
    """Return where V4 or V6 lies in a frame."""
    return data.index(V4 if V4 in data else V6)


@pytest.mark.parametrize("name", LINKS)
def test_the_ip_header_is_where_the_packet_begins(name: str) -> None:
    link_type, data = LINKS[name]
    assert ip_at(data, link_type) == packet_in(data)


@pytest.mark.parametrize("name", LINKS)
def test_a_frame_cut_in_its_link_header_is_cut_off(name: str) -> None:
    link_type, data = LINKS[name]
    begin = packet_in(data)
    for end in range(begin):
        found = ip_at(data, link_type, end)
        # PPP and MPLS do not tell the length of their header: any position within the bytes may come out.
        assert found in (CUT_OFF, NOT_IP) or found <= end + 8
        if LINK_TABLE[link_type, KIND] == BY_ETHERTYPE and end < LINK_TABLE[link_type, SKIP]:
            assert found == CUT_OFF


def tagged(*tags: tuple[int, int], ethertype: int = IPV4) -> bytes:
    """Return Ethernet with tags, given as ethertype and length, before an ethertype and V4."""
    kinds = [kind for kind, _ in tags] + [ethertype]
    out = bytes(12) + struct.pack(">H", kinds[0])
    for (_, length), following in zip(tags, kinds[1:], strict=True):
        out += bytes(length - 2) + struct.pack(">H", following)
    return out + V4


def test_tags_in_any_number_are_passed() -> None:
    lengths = {VLAN: 4, PROVIDER_VLAN: 4, OLD_VLAN: 4, OLDER_VLAN: 4, VIRTUAL_PORT: 6, PORT_EXTENDER: 8}
    lengths[BACKBONE] = 18
    for kind, length in lengths.items():
        frame = tagged((kind, length))
        assert ip_at(frame, 1) == frame.index(V4)
        assert ip_at(frame, 1, 14 + length - 1) == CUT_OFF
    frame = tagged(*lengths.items(), *lengths.items())
    assert ip_at(frame, 1) == frame.index(V4)


@pytest.mark.parametrize("ethertype", [0, 46, 0x0806, 0x88CC, 0xFFFF])
def test_other_ethertypes_are_not_ip(ethertype: int) -> None:
    assert ip_at(tagged(ethertype=ethertype), 1) == NOT_IP
    assert ip_at(tagged((VLAN, 4), ethertype=ethertype), 1) == NOT_IP


def labels(count: int) -> bytes:
    return b"".join(struct.pack(">I", 16 << 12 | (0x100 if n == count - 1 else 0) | 64) for n in range(count))


@pytest.mark.parametrize("count", [1, 2, 10])
@pytest.mark.parametrize("packet", [V4, V6])
def test_label_stacks_lead_to_ip_or_to_a_pseudowire(count: int, packet: bytes) -> None:
    head = bytes(12) + struct.pack(">H", MPLS) + labels(count)
    for between in (b"", ethernet(b""), bytes(4) + ethernet(b"")):
        inner = between[:-2] + ethernet(packet)[12:14] if between else b""
        assert ip_at(head + inner + packet, 1) == len(head + inner)
    assert ip_at(head + b"\x71" * 60, 1) == NOT_IP
    assert ip_at(head[:-4], 1) == CUT_OFF  # the bottom of the stack is missing


@pytest.mark.parametrize(
    ("protocol", "ip"), [(0x0021, True), (0x0057, True), (0xC021, False), (0x002B, False)]
)
def test_ppp_protocols(protocol: int, ip: bool) -> None:
    for framing in (b"", b"\xff\x03"):
        begin = framing + struct.pack(">H", protocol)
        assert ip_at(begin + V4, 9) == (len(begin) if ip else NOT_IP)


@given(st.sampled_from(sorted(LINK_TYPES)), st.binary(max_size=80), st.integers(0, 80))
def test_any_bytes_lead_nowhere_else(link_type: int, data: bytes, end: int) -> None:
    found = ip_at(data, link_type, min(end, len(data)))
    assert found in (NOT_IP, CUT_OFF) or 0 <= found <= len(data)


@given(st.binary(max_size=60))
def test_an_ethernet_frame_is_read_alike_as_link_and_inside(data: bytes) -> None:
    buffer = np.frombuffer(data + b"\xff" * 64, np.uint8)
    assert int(find_behind_ethernet(buffer, len(data))) == ip_at(data, 1)


def test_unknown_link_types_have_no_kind() -> None:
    known = np.flatnonzero(LINK_TABLE[:, KIND] >= 0).tolist()
    assert known == sorted(LINK_TYPES)
    assert LINK_TABLE.shape == (1 + max(LINK_TYPES), 3)
