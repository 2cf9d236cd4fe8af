"""Windows of time, and comments in the order of packets."""

import random

from kdissect.slice.packet_selection import COMMENTS_ON_A_PACKET, PacketComments, Wanted, Windows


def test_windows_are_the_union_of_their_intervals() -> None:
    chance = random.Random(3)
    for _ in range(200):
        spans = [(first, first + chance.randrange(6)) for first in chance.choices(range(60), k=9)]
        windows = Windows()
        for first, last in spans:
            windows.add(first, last)
        for time_ns in range(70):
            assert windows.has(time_ns) == any(first <= time_ns <= last for first, last in spans)


def test_windows_may_want_payload() -> None:
    wanted = Wanted(needs_payload=True)
    wanted.windows[1].add(5, 7)
    assert [wanted.has(6, side, payload) for side in (0, 1) for payload in (False, True)] == [
        False, False, False, True,
    ]  # fmt: skip
    assert Wanted(everything=True).has(0, 0, False)


def test_comments_come_with_their_packets() -> None:
    comments = PacketComments()
    comments.add(9, "late")
    comments.add(4, "first")
    comments.add(4, "second")
    comments.add(5, "of a packet that is not copied")
    for number in range(COMMENTS_ON_A_PACKET + 2):
        comments.add(7, f"message {number}")
    assert comments.of(3) == []
    assert comments.of(4) == ["first", "second"]
    assert comments.of(6) == []
    shown = comments.of(7)
    assert shown[0] == "message 0"
    assert shown[-1] == "2 more messages begin in this packet"
    assert len(shown) == COMMENTS_ON_A_PACKET + 1
    assert comments.of(9) == ["late"]
    comments.close()
