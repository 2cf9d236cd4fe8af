"""Splits: every packet once, exact byte ranges, picklable; and the interface rows that kernels read."""

import pickle
from fractions import Fraction
from math import floor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdissect.capture.formats.pcapng import FRACTION_BITS, time_ns
from kdissect.capture.index.splits import (
    ADD_NS,
    BINARY_RESOLUTION,
    DEFINED_AT,
    DIVIDE,
    INTERFACE_FIELDS,
    LATEST_NS,
    LINK,
    MOST_TICKS,
    MULTIPLY,
    SHIFT,
    SNAP,
    Interface,
    interface_row,
    interface_table,
)
from tests.helpers.crafted_packets import survey_bytes
from tests.helpers.random_traffic import pcap_traffic, pcapng_traffic

MADE = {
    "pcap": pcap_traffic(1, 400),
    "big-endian": pcap_traffic(2, 300, ">"),
    "pcapng": pcapng_traffic(3, 400),
}


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("split_bytes", [1, 100, 1000, 20_000, 1 << 30])
def test_splits_hold_every_packet_once(tmp_path: Path, name: str, split_bytes: int) -> None:
    found = survey_bytes(tmp_path, MADE[name], name, split_bytes=split_bytes)
    assert [split.index for split in found.splits] == list(range(len(found.splits)))
    assert sum(split.packets for split in found.splits) == found.packets
    packet, position = 1, 0
    for split in found.splits:
        assert split.first_packet == packet
        assert position <= split.start < split.stop
        packet, position = packet + split.packets, split.stop
        if split.packets > 1:
            assert split.stop - split.start < split_bytes + 2000
    assert position == len(MADE[name])
    if split_bytes == 1:
        assert len(found.splits) == found.packets
    assert pickle.loads(pickle.dumps(found.splits)) == found.splits


def exact_ns(interface: Interface, ticks: int) -> Fraction:
    """Return the time of a timestamp, without offset and limits, as the pcapng draft defines it."""
    power = interface.resolution & ~BINARY_RESOLUTION
    base = 2 if interface.resolution & BINARY_RESOLUTION else 10
    return Fraction(ticks * 10**9, base**power)


DECIMAL = st.integers(0, 27)
BINARY = st.integers(0, 63).map(lambda power: BINARY_RESOLUTION | power)


@given(st.one_of(DECIMAL, BINARY), st.integers(0, 2**63 - 1), st.integers(-(2**63), 2**63 - 1))
def test_rows_lead_to_the_exact_time(resolution: int, ticks: int, offset_s: int) -> None:
    interface = Interface(1, 0, resolution, offset_s)
    found = time_ns(ticks >> 32, ticks & 0xFFFFFFFF, interface_table((interface,)), 0)
    since = exact_ns(interface, ticks)
    if since > LATEST_NS:  # times that no clock shows are only kept in order
        assert 0 <= found <= LATEST_NS
        return
    expected = min(max(floor(since) + offset_s * 10**9, 0), LATEST_NS)
    dropped = 1 if resolution > BINARY_RESOLUTION + FRACTION_BITS else 0
    assert 0 <= expected - found <= dropped


@given(st.integers(0, 255), st.integers(-(2**63), 2**63 - 1))
def test_rows_fit_in_64_bits(resolution: int, offset_s: int) -> None:
    row = interface_row(Interface(0xFFFF, 0xFFFFFFFF, resolution, offset_s, (1 << 62)))
    assert len(row) == INTERFACE_FIELDS
    assert all(-(2**63) <= value < 2**63 for value in row)
    assert row[DIVIDE] > 0
    assert row[MOST_TICKS] * row[MULTIPLY] < 2**63
    assert (row[LINK], row[SNAP], row[DEFINED_AT]) == (0xFFFF, 0xFFFFFFFF, 1 << 62)


def test_a_table_has_a_row_for_each_interface() -> None:
    assert interface_table(()).shape == (0, INTERFACE_FIELDS)
    interfaces = (Interface(1, 96), Interface(113, 0, 9, defined_at=28), Interface(101, 0, 0x80 | 10, 3))
    table = interface_table(interfaces)
    assert table.dtype == np.int64
    assert [tuple(row) for row in table.tolist()] == [interface_row(interface) for interface in interfaces]
    assert table[:, SHIFT].tolist() == [-1, -1, 10]
    assert table[:, MULTIPLY].tolist() == [1000, 1, 1]
    assert table[:, ADD_NS].tolist() == [0, 0, 3 * 10**9]


def test_a_split_is_read_from_the_packets_that_it_recalls(tmp_path: Path) -> None:
    splits = survey_bytes(tmp_path, MADE["pcap"], split_bytes=5000).splits
    assert splits[0].recall_start == splits[0].start == 24
    for split in splits[1:]:
        assert split.recalled_packets == split.first_packet - 1  # the file is smaller than what is recalled
        assert split.recall_start == splits[0].start
