"""One loop over the descriptors of a split, beside plain NumPy."""

import numpy as np
import pytest

from kdissect.capture.packets.ip_fragments import MOST_PACKETS
from kdissect.capture.segment_index import (
    CAPTURED,
    FLAG_ACK,
    FLAG_ACK_ONLY,
    FLAG_B_TO_A,
    FLAGS,
    OFFSET,
    PACKET,
    SEGMENT_COLUMNS,
)
from kdissect.streams.flow_state import PACKET_BITS
from kdissect.streams.split_segments import IN_FILE, segments_of_split


def random_packets(count: int, seed: int) -> np.ndarray:
    """Return descriptors of the third split; some are acknowledgments, some waited as fragments."""
    chance = np.random.default_rng(seed)
    packets = chance.integers(0, 1 << 31, (SEGMENT_COLUMNS, count))
    packets[PACKET] = MOST_PACKETS + np.arange(count) * 7
    waited = chance.random(count) < 0.1
    packets[PACKET, waited] -= chance.integers(0, MOST_PACKETS, waited.sum())
    packets[PACKET] |= 2 << PACKET_BITS
    packets[CAPTURED] *= chance.random(count) < 0.7
    packets[FLAGS] = chance.choice([FLAG_ACK, FLAG_ACK | FLAG_B_TO_A, FLAG_ACK_ONLY], count)
    return packets


@pytest.mark.parametrize("layout", ["C", "F"])
@pytest.mark.parametrize("stops", [[], [0], [1], [3000], [0, 700, 701, 701, 2500, 3000]])
def test_a_split_is_described_as_by_numpy(stops: list[int], layout: str) -> None:
    counts = np.diff(np.array(stops, np.int64), prepend=0)
    packets = random_packets(int(counts.sum()), len(stops))
    connections = np.arange(10, 10 + len(counts))
    are_kept = packets[FLAGS] & FLAG_ACK_ONLY == 0
    table = packets[:, are_kept]
    piece_of = np.repeat(np.arange(len(counts)), counts)[are_kept]
    found = segments_of_split(np.array(packets, order=layout), counts, connections)
    np.testing.assert_array_equal(found.table, table)
    assert found.counts.tolist() == np.bincount(piece_of, minlength=len(counts)).tolist()
    assert found.connection_of.tolist() == connections[piece_of].tolist()
    assert found.directions.tolist() == (2 * connections[piece_of] + table[FLAGS] % 2).tolist()
    assert (found.payload_bytes, found.filled) == (table[CAPTURED].sum(), np.count_nonzero(table[CAPTURED]))
    numbers = table[PACKET] & IN_FILE
    assert found.last_packet == numbers.max(initial=0)
    assert found.last_place == table[OFFSET].max(initial=0)
    assert found.marked(FLAG_B_TO_A).tolist() == np.flatnonzero(table[FLAGS] & FLAG_B_TO_A).tolist()
    for least in (0, 1, 5000, found.last_packet // 2, found.last_packet, found.last_packet + 1):
        assert found.late(least).tolist() == np.flatnonzero(numbers >= least).tolist()


def test_segments_lie_where_the_packets_were() -> None:
    packets = np.asfortranarray(random_packets(100, 1))
    found = segments_of_split(packets, np.array([60, 40]), np.array([0, 1]))
    assert np.shares_memory(found.table, packets)
    assert found.table.T.flags.c_contiguous
