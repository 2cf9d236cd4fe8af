"""The flow table: pieces of connections, their keys and buckets, and the segments that are described."""

import socket
from pathlib import Path

from kdissect.capture.segment_index import (
    FLAG_B_TO_A,
)
from tests.capture.scanned_frames import BROKER, CLIENT, rows_of, to_broker, to_client
from tests.helpers.crafted_packets import (
    ACK,
    SYN,
    ethernet,
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
