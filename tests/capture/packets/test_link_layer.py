"""Link layers: every one leads to the IP header behind it, and bytes that are cut or lie are told apart."""

import pytest

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
from kdissect.capture.packets.link_layer import LINK_TYPES
from tests.capture.packets.link_frames import LINKS, V4, V6, read
from tests.helpers.crafted_packets import ACK


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
