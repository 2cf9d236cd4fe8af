"""Frames of a link: how they leave together, and how answers come in pieces."""

from __future__ import annotations

from random import Random

import pytest

from kdissect.replay.disposition import Disposition
from kdissect.replay.effects import Answer, Part
from kdissect.replay.net.connection import Connection
from kdissect.replay.net.transport import TcpTransport

NOWHERE = ("127.0.0.1", 1)


def asked(count: int) -> tuple[Connection, list[Answer]]:
    """Return a connection with so many pending requests, and the list that gets their answers."""
    answers: list[Answer] = []
    link = Connection(1, 7, NOWHERE, TcpTransport(None), deadline_ns=10)
    link.ready = True
    for number in range(count):
        link.ask(Part(18, 0, {}), answers.append, number)
    return link, answers


def said(correlation: int, size: int) -> bytes:
    return (size + 4).to_bytes(4, "big") + correlation.to_bytes(4, "big") + bytes(size)


def test_answers_are_the_same_however_they_are_cut() -> None:
    for seed in range(100):
        chance = Random(seed)
        sizes = [chance.choice([0, 1, 50, 3000]) for _ in range(12)]
        stream = b"".join(said(number + 1, size) for number, size in enumerate(sizes))
        link, answers = asked(12)
        at = 0
        while at < len(stream):
            step = chance.choice([1, 2, 3, 7, 100, 5000])
            link.received(stream[at : at + step], 1000 + at)
            at += step
        assert [len(answer.frame or b"") - 4 for answer in answers] == sizes
        assert [answer.sent_ns for answer in answers] == list(range(12))
        assert {(answer.bucket, answer.node) for answer in answers} == {(Disposition.ANSWERED, 7)}
        assert link.idle
        assert not link.closed


@pytest.mark.parametrize("wrong", [b"\xff\xff\xff\xff", b"\0\0\0\3", b"\x7f\xff\xff\xff", said(9, 0)])
@pytest.mark.parametrize("cut", [1, 4, 99])
def test_what_is_no_answer_ends_the_link_and_what_waits(wrong: bytes, cut: int) -> None:
    link, answers = asked(3)
    stream = said(1, 5) + wrong
    for at in range(0, len(stream), cut):
        link.received(stream[at : at + cut], 0)
    assert link.closed
    assert [answer.bucket for answer in answers] == [
        Disposition.ANSWERED,
        Disposition.CLOSED,
        Disposition.CLOSED,
    ]
    link.received(said(2, 0), 0)
    assert len(answers) == 3


@pytest.mark.parametrize(
    ("key", "size", "accepted"),
    [
        (18, 512 << 10, True),
        (18, (512 << 10) + 1, False),
        (36, (512 << 10) + 1, False),
        (3, 32 << 20, True),
        (3, (32 << 20) + 1, False),
        (1, 256 << 20, True),
        (1, (256 << 20) + 1, False),
    ],
)
def test_a_response_may_be_as_large_as_its_kind_is(key: int, size: int, accepted: bool) -> None:
    """The attacker is a target that would fill the memory of the replayer."""
    answers: list[Answer] = []
    link = Connection(1, 7, NOWHERE, TcpTransport(None), deadline_ns=10)
    link.ready = True
    link.ask(Part(key, 0, {}, ready=bytes(12)), answers.append, 0)
    link.received(size.to_bytes(4, "big"), 0)
    assert link.closed is not accepted


def test_bytes_that_nobody_waits_for_end_the_link() -> None:
    link, _ = asked(0)
    link.received((5).to_bytes(4, "big"), 0)
    assert link.closed


def test_a_captured_wait_is_not_believed_beyond_half_an_hour() -> None:
    link, answers = asked(0)
    link.ask(Part(18, 0, {}, wait_ms=(1 << 31) - 1), answers.append, 0)
    assert not link.expire(29 * 60 * 10**9)
    assert link.expire(31 * 60 * 10**9)


def test_silence_ends_the_oldest_question_as_timed_out() -> None:
    link, answers = asked(2)
    assert not link.expire(9)
    assert link.expire(10)
    assert [answer.bucket for answer in answers] == [Disposition.TIMED_OUT, Disposition.CLOSED]
