"""Captures whose packets carry parts of other captures, so that payload looks like records."""

from tests.helpers.crafted_packets import (
    enhanced,
    ethernet,
    interface,
    pcap,
    section,
    tcp,
)
from tests.helpers.random_traffic import packets

FRAMES = [frame for _, frame in packets(7, 400)]
US = 1_700_000_000_000_000  # the time of the first packet


def within(capture: bytes, kind: str, count: int = 6) -> bytes:
    """Return a capture whose packets carry parts of another capture."""
    carried = [capture[at : at + 1400] for at in range(0, len(capture), 1400)]
    frames = [ethernet(tcp(payload=b"to" + part)) for part in carried] * count  # two bytes align blocks
    if kind == "pcap":
        return pcap([(7, n, frame) for n, frame in enumerate(frames)])
    return section() + interface() + b"".join(enhanced(US + n, frame) for n, frame in enumerate(frames))


def nested(kind: str) -> bytes:
    """Return a capture whose packets carry a capture of the same format: many records that are none."""
    small = [(7, number, frame[:60]) for number, frame in enumerate(FRAMES)]
    if kind == "pcap":
        return within(pcap(small), kind)
    blocks = (enhanced(US + number, frame) for _, number, frame in small)
    return within(section() + interface() + b"".join(blocks), kind)
