"""Round trips, retransmissions, standstills, closed windows and attempts, from hand-made packets."""

import numpy as np
import pytest

from kdissect.streams.tcp.tcp_tracker import TcpTracker
from kdissect.streams.tcp.tracker_state import ACKNOWLEDGED, RESET, STILL_OPEN, UNACKNOWLEDGED, WINDOW_CLOSED
from tests.streams.tcp.tcp_packets import (
    CLIENT,
    MS,
    SERVER,
    START_NS,
    Packet,
    ack,
    data,
    fin,
    followed,
    rst,
    syn,
)

OPENED = [syn(0), syn(1, SERVER), ack(2, CLIENT, 0)]


def total(tracker: TcpTracker, name: str, side: int = CLIENT) -> int:
    """Return the sum of a figure of the steps of one direction."""
    steps = tracker.steps()
    return int(steps[name][steps["direction"] & 1 == side].sum())


def test_a_round_trip_ends_with_the_acknowledgment_of_the_timed_segment() -> None:
    tracker = followed(
        [*OPENED, data(10, CLIENT, 0, 40), data(11, CLIENT, 40, 40), ack(17, SERVER, 40), ack(30, SERVER, 80)]
    )
    assert (total(tracker, "ack_count"), total(tracker, "ack_ns")) == (1, 7 * MS)
    assert total(tracker, "reply_count") == 0
    assert total(tracker, "largest_acked") == 40


def test_an_acknowledgment_with_data_is_counted_apart() -> None:
    tracker = followed(
        [*OPENED, data(10, CLIENT, 0, 40), data(35, SERVER, 0, 9, acked=40), ack(36, CLIENT, 9)]
    )
    assert (total(tracker, "ack_count"), total(tracker, "reply_ns")) == (0, 25 * MS)
    assert (total(tracker, "ack_count", SERVER), total(tracker, "ack_ns", SERVER)) == (1, 1 * MS)


def test_a_segment_that_was_sent_again_times_nothing() -> None:
    tracker = followed(
        [
            *OPENED,
            data(10, CLIENT, 0, 40),
            data(215, CLIENT, 0, 40),
            data(615, CLIENT, 0, 40),
            ack(630, SERVER, 40),
        ]
    )
    assert (total(tracker, "ack_count"), total(tracker, "repeated")) == (0, 2)
    (span,) = tracker.spans()
    assert (span["kind"], span["outcome"], span["packets"], span["most_repeats"]) == (
        UNACKNOWLEDGED,
        ACKNOWLEDGED,
        2,
        2,
    )
    assert (span["begin_ns"] - START_NS, span["end_ns"] - START_NS) == (10 * MS, 630 * MS)
    assert (span["segment_bytes"], span["bytes"], span["packet"]) == (40, 40, 4)


def test_data_without_acknowledgment_until_the_end_stays_open() -> None:
    tracker = followed(
        [*OPENED, data(10, CLIENT, 0, 40), *(data(10 + 200 * n, CLIENT, 0, 40) for n in range(1, 9))]
    )
    (span,) = tracker.spans()
    assert (span["outcome"], span["packets"], span["end_ns"] - START_NS) == (STILL_OPEN, 8, 1610 * MS)
    _, directions = tracker.connections()
    assert (directions["sent"] - directions["acked"]).tolist() == [40, 0]


@pytest.mark.parametrize(("after_ms", "repeated"), [(1, 0), (5, 1)])
def test_bytes_that_fill_a_hole(after_ms: float, repeated: int) -> None:
    tracker = followed(
        [*OPENED, data(10, CLIENT, 0, 10), data(20, CLIENT, 20, 10), data(20 + after_ms, CLIENT, 10, 10)]
    )
    assert total(tracker, "repeated") == repeated


def test_probes_are_no_retransmissions() -> None:
    keep_alive = [*OPENED, data(10, CLIENT, 0, 10), ack(11, SERVER, 10), data(9000, CLIENT, 9, 1)]
    assert total(followed(keep_alive), "repeated") == 0
    probe = [*OPENED, data(10, CLIENT, 0, 10), ack(11, SERVER, 10, closed=True), data(300, CLIENT, 9, 2)]
    assert total(followed(probe), "repeated") == 0


def test_a_closed_window_lasts_until_a_packet_opens_it() -> None:
    tracker = followed(
        [*OPENED, data(10, CLIENT, 0, 10), ack(11, SERVER, 10, closed=True),
         ack(400, SERVER, 10, closed=True), data(400, SERVER, 0, 5, acked=10), ack(600, SERVER, 10)]
    )  # fmt: skip
    (span,) = (one for one in tracker.spans() if one["kind"] == WINDOW_CLOSED)
    assert (span["direction"], span["packets"], span["outcome"]) == (SERVER, 2, ACKNOWLEDGED)
    assert (span["begin_ns"] - START_NS, span["end_ns"] - START_NS) == (11 * MS, 400 * MS)


def test_a_reset_after_a_long_silence_leaves_a_span() -> None:
    tracker = followed(
        [
            *OPENED,
            data(10, CLIENT, 0, 10),
            ack(11, SERVER, 10),
            data(60_000, CLIENT, 10, 10),
            rst(60_001, SERVER),
        ]
    )
    (span,) = tracker.spans()
    assert (span["outcome"], span["idle_ns"], span["bytes"]) == (RESET, 59_989 * MS, 10)
    connections, _ = tracker.connections()
    assert (connections["closed_ns"][0] - START_NS, connections["closed_by"][0]) == (60_001 * MS, SERVER)


def test_who_closed_first() -> None:
    tracker = followed([*OPENED, fin(50, CLIENT, 0, 0), fin(51, SERVER, 0, 1), rst(52, SERVER)])
    connections, _ = tracker.connections()
    assert (connections["closed_ns"][0] - START_NS, connections["closed_by"][0]) == (50 * MS, CLIENT)


def test_attempts_to_open_a_connection() -> None:
    refused = followed([syn(0), rst(1, SERVER)])
    assert [total(refused, name) for name in ("attempts", "refused", "unanswered")] == [1, 1, 0]
    unanswered = followed([syn(0), syn(1000), syn(3000)])
    assert [total(unanswered, name) for name in ("attempts", "attempt_repeats", "refused", "unanswered")] == [
        1,
        2,
        0,
        1,
    ]
    given_up = followed([syn(0), syn(1000), rst(1500, CLIENT)])
    assert [total(given_up, name) for name in ("refused", "unanswered")] == [0, 0]
    assert total(followed(OPENED), "unanswered") == 0


def random_packets(seed: int) -> list[Packet]:
    """Return packets of a connection at random: losses, repeats, closed windows."""
    chance = np.random.default_rng(seed)
    packets, sent, ms = list(OPENED), [0, 0], 5.0
    for _ in range(120):
        ms += float(chance.choice([0.1, 2, 300, 1500]))
        side, what = int(chance.integers(2)), chance.integers(10)
        if what < 5:
            length = int(chance.integers(1, 3000))
            packets.append(data(ms, side, sent[side], length, acked=sent[1 - side]))
            sent[side] += length
        elif what < 7:
            packets.append(data(ms, side, max(0, sent[side] - 500), 200, acked=sent[1 - side] // 2))
        else:
            packets.append(ack(ms, side, int(chance.integers(sent[1 - side] + 1)), closed=bool(what == 9)))
    return packets


@pytest.mark.parametrize("seed", range(8))
def test_results_do_not_depend_on_where_the_packets_are_cut(seed: int) -> None:
    packets = random_packets(seed)
    all_at_once, cut = followed(packets), followed(packets, cuts=(1, 2, 17, 50, 51, 119))
    assert all_at_once.steps().tolist() == cut.steps().tolist()
    assert all_at_once.spans().tolist() == cut.spans().tolist()
    assert len(all_at_once.spans()) > 0
