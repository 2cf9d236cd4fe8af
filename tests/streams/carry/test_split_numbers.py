"""Splits are numbered anew in what is carried on, and keep their names."""

from dataclasses import replace

import numpy as np

from kdissect.streams.carry.split_numbers import NO_SPLIT, SplitNumbers, past_splits, resumed_packets
from kdissect.streams.flow_state import PACKET_BITS

NAMES = ["a", "b", "c", "d"]
SPLITS = [replace(NO_SPLIT, index=index, name=name) for index, name in enumerate(NAMES)]


def packet(split: int, number: int) -> int:
    return split << PACKET_BITS | number


def test_packets_keep_their_file_and_number() -> None:
    numbers = SplitNumbers()
    first = numbers.carried(np.array([packet(3, 7), -1, 0, packet(1, 1 << 39)]))
    second = numbers.carried(np.array([packet(1, 5)]))
    splits = [*SPLITS[:2], *past_splits(numbers.names(SPLITS), 2)]
    found = resumed_packets(np.concatenate([first, second]), 2)
    assert found[[1, 2]].tolist() == [-1, 0]
    places = [
        (splits[one >> PACKET_BITS].name, one & (1 << PACKET_BITS) - 1) for one in found[[0, 3, 4]].tolist()
    ]
    assert places == [("d", 7), ("b", 1 << 39), ("b", 5)]
    assert [split.index for split in splits] == [0, 1, 2, 3]


def test_only_splits_that_are_referred_to_are_named() -> None:
    numbers = SplitNumbers()
    numbers.carried(np.array([packet(2, 1), packet(2, 2)]))
    assert numbers.names(SPLITS) == ["c"]
    assert not SplitNumbers().names(SPLITS)
