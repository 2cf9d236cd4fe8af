"""Splits: every packet once, exact byte ranges, picklable; and the interface rows that kernels read."""

import pickle
from pathlib import Path

import pytest

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
