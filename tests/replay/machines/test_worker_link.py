"""`replay.machines.worker_link`: a worker hears the driver while it sends."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from kdissect.replay.machines.channel import Channel, ChannelMessage, Listener
from kdissect.replay.machines.run_messages import MessageKind
from kdissect.replay.machines.worker_link import DriverGone, DriverLink
from kdissect.replay.net.transport import now_ns
from tests.replay.machines.test_channel import pair


@pytest.fixture
def ends() -> Iterator[tuple[Channel, DriverLink]]:
    listener = Listener("127.0.0.1")
    driver, worker = pair(listener)
    link = DriverLink(worker, lost_s=1.5)
    yield driver, link
    link.close()
    driver.close()
    listener.close()


def next_of(driver: Channel, kind: str) -> ChannelMessage:
    while True:
        message = driver.receive(5)
        assert message is not None
        if message.kind == kind:
            return message


def wait_for_stop(link: DriverLink) -> str:
    until = time.monotonic() + 10
    while not link.stop_signal.reason and time.monotonic() < until:
        time.sleep(0.01)
    return link.stop_signal.reason


def test_both_hear_a_stop(ends: tuple[Channel, DriverLink]) -> None:
    driver, link = ends
    driver.send(MessageKind.STOP, reason="interrupted")
    assert wait_for_stop(link) == "interrupted"
    link.stop_signal.give("another")  # the first reason stays, and nothing is sent back
    link.send(MessageKind.LOADED)
    assert [message.kind for message in iter(lambda: driver.receive(0.5), None)][:1] == [MessageKind.LOADED]


def test_the_driver_hears_why_a_worker_stops(ends: tuple[Channel, DriverLink]) -> None:
    driver, link = ends
    link.stop_signal.give("10 connections in a row were refused")
    assert next_of(driver, MessageKind.STOP).values == {"reason": "10 connections in a row were refused"}


def test_messages_wait_until_they_are_wanted(ends: tuple[Channel, DriverLink]) -> None:
    driver, link = ends
    driver.send(MessageKind.ALIVE)
    driver.send(MessageKind.ORDERS, b"body")
    assert link.wait(MessageKind.ORDERS).body == b"body"


def test_a_clock_is_measured(ends: tuple[Channel, DriverLink]) -> None:
    driver, link = ends
    from threading import Thread

    def answer() -> None:
        for _ in range(20):
            message = next_of(driver, MessageKind.CLOCK)
            ahead = 10**9  # the driver's clock is a second ahead
            driver.send(
                MessageKind.CLOCK,
                t1=message.values["t1"],
                t2=message.received_ns + ahead,
                t3=now_ns() + ahead,
            )

    thread = Thread(target=answer)
    thread.start()
    clock = link.clock_offset()
    thread.join()
    assert abs(clock.offset_ns + 10**9) <= clock.error_ns < 10**8


@pytest.mark.slow
def test_a_driver_that_is_gone_or_silent_stops_a_worker(ends: tuple[Channel, DriverLink]) -> None:
    _, link = ends
    assert "silent for 1.5 s" in wait_for_stop(link)
    with pytest.raises(DriverGone, match=r"silent for 1\.5 s"):
        link.wait(MessageKind.START)
