"""`replay.machines.remote_workers`: who is let in, who is lost, and when all have to stop."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from kdissect.replay.disposition import Disposition
from kdissect.replay.engine.pass_results import RequestResult, ResultTable
from kdissect.replay.machines.channel import Channel, ChannelClosed, connect
from kdissect.replay.machines.progress_feed import packed_endings
from kdissect.replay.machines.remote_workers import RemoteWorkers, WhenLost, WorkersFailed, WorkerUnfit
from kdissect.replay.machines.run_messages import MessageKind
from kdissect.replay.settings import Breaker


@contextmanager
def remote_workers(
    count: int, when_lost: WhenLost = WhenLost.STOP, lost_s: float = 5.0
) -> Iterator[tuple[RemoteWorkers, list[Channel]]]:
    """Yield a remote that is sending, with the other ends of its channels."""
    remote = RemoteWorkers("127.0.0.1", "", count, Breaker(), when_lost, lost_s)
    with closing(remote):
        channels = [connect(remote.invitation) for _ in range(count)]
        for number, channel in enumerate(channels):
            channel.send(MessageKind.JOINED, number=number, host="here", process=1)
        remote.gather()
        remote.sending = True
        yield remote, channels
        for channel in channels:
            channel.close()


def stop_heard(channel: Channel) -> str:
    until = time.monotonic() + 5
    while time.monotonic() < until:
        message = channel.receive(1.0)
        if message is not None and message.kind == MessageKind.STOP:
            return str(message.values["reason"])
    raise AssertionError("no stop")


def test_only_as_many_workers_are_let_in_as_are_expected() -> None:
    remote = RemoteWorkers("127.0.0.1", "", 2, Breaker())
    with closing(remote):
        stranger = connect(dataclasses.replace(remote.invitation, token=bytes(32)))
        first = connect(remote.invitation)
        first.send(MessageKind.JOINED, number=0, host="a", process=1)
        while not remote.workers:
            time.sleep(0.01)
        for number in (0, 2):  # a task that Spark has started again, and one that nobody has started
            again = connect(remote.invitation)
            again.send(MessageKind.JOINED, number=number, host="a", process=1)
            with pytest.raises(ChannelClosed):
                again.receive_exactly(1, 5)
        second = connect(remote.invitation)
        second.send(MessageKind.JOINED, number=1, host="b", process=2)
        remote.gather()
        assert [remote.workers[number].name for number in range(2)] == ["worker 0 on a", "worker 1 on b"]
        with pytest.raises(ChannelClosed):
            stranger.receive_exactly(1, 5)


def test_a_failure_before_anything_is_sent_ends_the_run() -> None:
    with remote_workers(2) as (remote, channels):
        remote.sending = False
        channels[1].send(MessageKind.FAILED, reason="LOG cannot be used there", by_user=True)
        with pytest.raises(WorkerUnfit, match="worker 1 on here: LOG cannot be used there"):
            remote.expect(MessageKind.PLAYED)
        channels[0].close()
        with pytest.raises(WorkersFailed, match="worker 0 on here is gone"):
            remote.expect(MessageKind.PLAYED)


def test_what_starts_the_workers_may_fail() -> None:
    remote = RemoteWorkers("127.0.0.1", "", 2, Breaker())
    with closing(remote):
        remote.job_failed(ValueError("no slot"))
        with pytest.raises(ValueError, match="no slot"):
            remote.gather()


def test_a_lost_worker_stops_the_others_or_not() -> None:
    for when_lost in WhenLost:
        with remote_workers(2, when_lost) as (remote, channels):
            channels[0].close()
            channels[1].send(MessageKind.PLAYED, b"outcome")
            assert remote.expect(MessageKind.PLAYED)[1].body == b"outcome"
            (lost,) = remote.lost()
            assert lost.lost.startswith("worker 0 on here is gone: ")
            assert remote.stopped == (lost.lost if when_lost is WhenLost.STOP else "")
            if remote.stopped:
                assert stop_heard(channels[1]) == remote.stopped


@pytest.mark.slow
def test_a_silent_worker_is_lost() -> None:
    with remote_workers(2, lost_s=1.5) as (remote, channels):
        ended = threading.Event()

        def live() -> None:
            while not ended.wait(0.3):
                channels[1].send(MessageKind.ALIVE)

        alive = threading.Thread(target=live)
        alive.start()
        threading.Timer(2.5, lambda: channels[1].send(MessageKind.PLAYED)).start()
        remote.expect(MessageKind.PLAYED)
        ended.set()
        alive.join()
        assert [worker.number for worker in remote.lost()] == [0]
        assert "silent for 1.5 s" in remote.stopped


def test_the_circuit_breaker_judges_all_workers_together() -> None:
    results = ResultTable()
    results.append(RequestResult(3, Disposition.ANSWERED))
    body = packed_endings(results)
    with remote_workers(2) as (remote, channels):
        channels[0].send(MessageKind.PROGRESS, body, recent=[900, 10, 0])
        channels[1].send(MessageKind.PROGRESS, body, recent=[300, 300, 0])  # a quarter of all
        for channel in channels:
            channel.send(MessageKind.PLAYED)
        remote.expect(MessageKind.PLAYED)
        assert not remote.stopped
        channels[0].send(MessageKind.PROGRESS, b"", recent="junk")  # such a worker is lost
        channels[1].send(MessageKind.PROGRESS, body, recent=[300, 200, 0])
        channels[1].send(MessageKind.PLAYED)
        remote.expect(MessageKind.PLAYED)
        assert remote.stopped.startswith("worker 0 on here sent what no worker sends")
    with remote_workers(1) as (remote, channels):
        channels[0].send(MessageKind.PROGRESS, body, recent=[300, 200, 0])
        channels[0].send(MessageKind.PLAYED)
        remote.expect(MessageKind.PLAYED)
        assert remote.stopped == "200 of the last 300 requests failed that did not in the capture"
        assert stop_heard(channels[0]) == remote.stopped


def test_a_worker_that_stops_stops_all() -> None:
    with remote_workers(2) as (remote, channels):
        channels[0].send(MessageKind.STOP, reason="10 connections in a row were refused")
        for channel in channels:
            channel.send(MessageKind.PLAYED)
        remote.expect(MessageKind.PLAYED)
        assert remote.stopped == "10 connections in a row were refused (worker 0 on here)"
        assert stop_heard(channels[1]) == remote.stopped
