"""The numbers of splits in what is carried on: few and small, however many splits there have been.

A packet is `split << PACKET_BITS | number in its file`. Data that waits for more refers to packets of earlier
splits, mostly to few of them. `SplitNumbers` numbers these from 0 in the order in which they are met, and the
state that is carried on has their names. The process that goes on puts these names behind its own splits.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from kdissect.array_types import Int64s
from kdissect.capture.index.splits import CaptureFormat, Split
from kdissect.streams.flow_state import PACKET_BITS

NUMBER_MASK = (1 << PACKET_BITS) - 1
NO_SPLIT = Split(
    index=0, path="", name="", start=0, stop=0, first_packet=1, packets=0, format=CaptureFormat.PCAP,
    big_endian=False, record_header=0, interfaces=(), time_before_ns=0,
)  # fmt: skip
"""A split of which only the name is known: nothing is read from it any more."""


class SplitNumbers:
    """Numbers of the splits that packets refer to."""

    def __init__(self) -> None:
        self._number_of: dict[int, int] = {}

    def carried(self, packets: Int64s) -> Int64s:
        """Return packets with the new numbers of their splits. Numbers of no packet (0, -1) stay."""
        packets = np.array(packets, np.int64)
        known = _is_packet(packets)
        splits, which = np.unique(packets[known] >> PACKET_BITS, return_inverse=True)
        numbers = [self._number_of.setdefault(split, len(self._number_of)) for split in splits.tolist()]
        packets[known] &= NUMBER_MASK
        packets[known] |= np.array(numbers, np.int64)[which] << PACKET_BITS
        return packets

    def names(self, splits: Sequence[Split]) -> list[str]:
        """Return the names of the files of all splits that were met, by new number."""
        return [splits[number].name for number in self._number_of]


def resumed_packets(packets: Int64s, first_split: int) -> Int64s:
    """Return carried packets, whose split 0 has the number `first_split` from now on."""
    return np.where(_is_packet(packets), packets + (first_split << PACKET_BITS), packets)


def past_splits(names: Sequence[str], first_split: int) -> tuple[Split, ...]:
    """Return splits of which only the names are left, numbered from `first_split` on."""
    return tuple(replace(NO_SPLIT, index=first_split + i, name=name) for i, name in enumerate(names))


def _is_packet(packets: Int64s) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    return (packets > 0) & (packets & NUMBER_MASK > 0)
