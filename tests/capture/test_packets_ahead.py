"""`capture.packets_ahead`: packets are the same, however many are read at a time."""

import random

import numpy as np

from kdissect.capture.flow_table import FlowTable
from kdissect.capture.packets_ahead import AHEAD
from tests.capture.flow_tables import table_of
from tests.helpers.crafted_packets import ethernet, ip, pcap, tcp

CONNECTIONS = 5 * AHEAD


class OneByOne(FlowTable):
    """A table that takes each packet by itself, so that none is read ahead of another."""

    def add(self, data: np.ndarray, base: int, records: np.ndarray) -> None:
        for row in range(len(records)):
            super().add(data, base, records[row : row + 1])


def traffic() -> bytes:
    """Return packets of many connections in both directions, and others between them."""
    chance, packets = random.Random(4), []
    for number in range(40 * AHEAD):
        port = 20_000 + chance.randrange(CONNECTIONS)
        there, back = ("10.0.0.1", "10.0.0.2", (port, 9092)), ("10.0.0.2", "10.0.0.1", (9092, port))
        packet = tcp(*chance.choice((there, back)), b"x" * chance.randrange(9), seq=number)
        other = ip("10.0.0.1", "10.0.0.2", 17, b"not TCP")
        packets.append((1, number, ethernet(other if number % 7 == 0 else packet)))
    return pcap(packets)


def test_packets_read_ahead_are_those_of_one_at_a_time() -> None:
    data = traffic()
    ahead, alone = table_of(data), table_of(data, flows=OneByOne())
    assert len(ahead.pieces) == CONNECTIONS
    np.testing.assert_array_equal(ahead.pieces, alone.pieces)
    np.testing.assert_array_equal(ahead.segments, alone.segments)
    np.testing.assert_array_equal(ahead.counts, alone.counts)
