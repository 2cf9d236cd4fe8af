"""The flow table: pieces of connections, their keys and buckets, and the segments that are described."""

import random
import socket
from pathlib import Path

from kdissect.capture.flow_pieces import A_PORT, COUNT
from kdissect.capture.flow_table import PIECE
from kdissect.capture.segment_index import (
    FLAG_ACK,
    FLAG_ACK_ONLY,
    FLAG_B_TO_A,
    FLAG_WINDOW_CLOSED,
)
from tests.capture.flow_tables import opened, table_of
from tests.capture.scanned_frames import BROKER, CLIENT, acknowledgments_of, rows_of, to_broker, to_client
from tests.helpers.crafted_packets import (
    ACK,
    RST,
    SYN,
    ethernet,
    pcap,
    tcp,
)


def test_a_port_pair_that_is_used_again(tmp_path: Path) -> None:
    frames = [
        to_broker(flags=ACK, payload=b"from before"),
        to_broker(flags=SYN, seq=100),
        to_broker(flags=SYN, seq=100, identification=8),  # the same SYN again
        to_client(flags=SYN | ACK, seq=500, ack=101),
        to_broker(flags=SYN, seq=7000),
        to_client(flags=SYN | ACK, seq=9000, ack=7001),
        to_client(flags=SYN, seq=7000),  # the same number, but from the other side
    ]
    rows, described, _ = rows_of(tmp_path, *frames)
    assert [[one[1] for one in piece] for piece in described] == [[1], [2, 3, 4], [5, 6], [7]]
    assert [(row["packets_ab"], row["packets_ba"]) for row in rows] == [(1, 0), (2, 1), (1, 1), (0, 1)]
    assert len({row["bucket"] for row in rows}) == 1


def test_a_syn_captured_after_its_answer_begins_a_piece(tmp_path: Path) -> None:
    frames = [
        to_client(flags=SYN | ACK, seq=500, ack=101),
        to_broker(flags=SYN, seq=100),
        to_broker(payload=b"x"),
    ]
    _, described, _ = rows_of(tmp_path, *frames)
    assert [[one[1] for one in piece] for piece in described] == [[1], [2, 3]]


def test_a_copy_of_a_syn_begins_nothing(tmp_path: Path) -> None:
    first, second = to_broker(flags=SYN, seq=100, identification=8), to_broker(flags=SYN, seq=7000)
    rows, described, _ = rows_of(tmp_path, first, second, first, to_broker(seq=7001, payload=b"x"))
    assert [[one[1] for one in piece] for piece in described] == [[1], [2, 4]]
    assert [row["duplicates"] for row in rows] == [0, 1]


def test_the_first_acknowledgement_behind_a_syn_is_described(tmp_path: Path) -> None:
    frames = [
        to_broker(seq=100, ack=500),
        to_client(flags=SYN | ACK, seq=500, ack=101),
        to_broker(seq=101, ack=501),
        to_broker(seq=101, ack=501, window=100),
    ]
    _, described, _ = rows_of(tmp_path, *frames)
    assert [[one[1] for one in piece] for piece in described] == [[1, 2, 3]]


def test_the_lower_endpoint_is_a(tmp_path: Path) -> None:
    frames = [
        ethernet(tcp("10.0.0.9", "10.0.0.10", (1, 2), payload=b"x")),
        ethernet(tcp("10.0.0.10", "10.0.0.9", (2, 1), payload=b"x")),
        ethernet(tcp("10.0.0.1", "10.0.0.1", (9092, 5), payload=b"x")),
        ethernet(tcp("2001:db8::ff", "::1", (3, 4), payload=b"x")),
    ]
    rows, described, _ = rows_of(tmp_path, *frames)
    assert [(row["a_port"], row["b_port"]) for row in rows] == [(1, 2), (5, 9092), (4, 3)]
    assert rows[2]["a_host"] == socket.inet_pton(socket.AF_INET6, "::1")
    assert [[one[7] & FLAG_B_TO_A for one in piece] for piece in described] == [[0, 1], [1], [1]]


def test_many_connections_and_equal_buckets_everywhere(tmp_path: Path) -> None:
    frames = [ethernet(tcp(CLIENT, BROKER, (port, 9092), payload=b"x")) for port in range(2000)] * 2
    rows, described, _ = rows_of(tmp_path, *frames)
    assert [row["a_port"] for row in rows] == list(range(2000))
    assert [[one[1] for one in piece] for piece in described] == [[i + 1, i + 2001] for i in range(2000)]
    buckets = [row["bucket"] for row in rows]
    assert all(0 <= bucket < 1 << 16 for bucket in buckets)
    assert len(set(buckets)) > 1900
    assert [row["bucket"] for row in rows_of(tmp_path, *frames)[0]] == buckets


def test_a_table_grows_and_is_used_again() -> None:
    flows = table_of(opened(range(1000)))
    assert flows.pieces[:, A_PORT].tolist() == list(range(1000))
    flows = table_of(opened([7, 8, 7]), flows=flows)
    assert flows.pieces[:, A_PORT].tolist() == [7, 8]
    assert flows.pieces[:, COUNT].tolist() == [2, 1]
    assert flows.counts.tolist() == table_of(opened([7, 8, 7])).counts.tolist()


def test_segments_are_sorted_by_piece_in_the_order_of_the_capture() -> None:
    chance = random.Random(2)
    flows = table_of(opened(chance.randrange(20) for _ in range(700)))
    order, starts = flows.by_piece()
    pieces = flows.segments[:, PIECE].tolist()
    assert order.tolist() == sorted(range(len(pieces)), key=lambda row: pieces[row])
    assert starts.tolist() == [sorted(pieces).index(piece) for piece in range(len(flows.pieces))]


def test_without_usable_ports_every_port_counts() -> None:
    data = opened([5, 6])
    assert len(table_of(data).pieces) == len(table_of(data, [-1, 1 << 16]).pieces) == 2
    assert len(table_of(data, [5, -1]).pieces) == 1


def test_acknowledgments_of_more_bytes_and_changes_of_the_window_are_described(tmp_path: Path) -> None:
    frames = [
        to_broker(flags=SYN, seq=100),
        to_client(flags=SYN | ACK, seq=500, ack=101),
        to_broker(seq=101, ack=501),  # described: the first one
        to_broker(seq=101, ack=501, payload=b"request"),
        to_client(seq=501, ack=108),  # described as the first one of the broker
        to_client(seq=501, ack=108, window=7),  # nothing new
        to_broker(seq=108, ack=501, payload=b"another"),
        to_client(seq=501, ack=115),
        to_client(seq=501, ack=115, window=0),
        to_client(seq=501, ack=115, window=0, payload=b"closed"),
        to_client(seq=507, ack=115),
        to_client(flags=RST, seq=507, window=0),
    ]
    (piece,) = acknowledgments_of(tmp_path, *frames)
    closed = FLAG_WINDOW_CLOSED
    assert [(one[1], one[6], one[7] & closed) for one in piece] == [
        (8, 115, 0),
        (9, 115, closed),
        (10, 115, closed),
        (11, 115, 0),
    ]
    assert {one[7] & ~closed for one in piece} == {FLAG_ACK_ONLY | FLAG_ACK | FLAG_B_TO_A}
    assert [one[0] for one in piece] == [10**9 + 1000 * (one[1] - 1) for one in piece]
    assert {tuple(one[2:6]) for one in piece} == {(0, 0, 0, 0)}


def test_room_for_packets_that_need_two_descriptors() -> None:
    frames = [ethernet(tcp(ports=(1, 9092), payload=b"x", seq=n, window=0)) for n in range(2000)]
    flows = table_of(pcap([(1, n, frame) for n, frame in enumerate(frames)]))
    assert len(flows.segments) == 4000
