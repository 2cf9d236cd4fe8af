"""`replay.machines.channel`: messages between driver and worker, and who is let in."""

from __future__ import annotations

import dataclasses
import socket
import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kdissect.replay.machines.channel import (
    LENGTHS,
    MOST_BYTES,
    Channel,
    ChannelClosed,
    Invitation,
    Listener,
    connect,
    nameless_file,
)

WAIT_S = 10.0


@pytest.fixture
def listener() -> Iterator[Listener]:
    made = Listener("127.0.0.1")
    yield made
    made.close()


def pair(listener: Listener, invitation: Invitation | None = None) -> tuple[Channel, Channel]:
    """Return both ends of a channel: the driver's and the worker's."""
    with ThreadPoolExecutor(1) as pool:
        admitted = pool.submit(lambda: listener.admit(listener.accept()))
        worker = connect(invitation or listener.invitation)
        return admitted.result(WAIT_S), worker


def test_messages_go_both_ways_at_once(listener: Listener) -> None:
    driver, worker = pair(listener)
    body = bytes(range(256)) * 4000

    def send_all(channel: Channel) -> None:
        for number in range(50):
            channel.send("count", body if number == 25 else b"", number=number)

    senders = [threading.Thread(target=send_all, args=(channel,)) for channel in (driver, worker)]
    for sender in senders:
        sender.start()
    for channel in (driver, worker):
        got = [channel.receive(WAIT_S) for _ in range(50)]
        assert [message.values["number"] for message in got if message] == list(range(50))
        assert got[25] is not None
        assert got[25].body == body
    assert driver.receive(0.01) is None
    worker.close()
    with pytest.raises(ChannelClosed):
        driver.receive(WAIT_S)


def test_a_stranger_is_told_nothing(listener: Listener) -> None:
    wrong = dataclasses.replace(listener.invitation, token=bytes(32))
    with ThreadPoolExecutor(1) as pool:
        admitted = pool.submit(lambda: listener.admit(listener.accept()))
        worker = connect(wrong)
        with pytest.raises(ChannelClosed, match="another token"):
            admitted.result(WAIT_S)
        with pytest.raises(ChannelClosed):
            worker.receive(WAIT_S)
    with ThreadPoolExecutor(1) as pool:
        admitted = pool.submit(lambda: listener.admit(listener.accept()))
        with socket.create_connection((listener.invitation.host, listener.invitation.port)) as junk:
            junk.sendall(b"GET / HTTP/1.1\r\n\r\n")
            with pytest.raises(ChannelClosed, match="TLS"):
                admitted.result(WAIT_S)


def test_a_worker_trusts_the_certificate_of_its_run_only(listener: Listener) -> None:
    other = Listener("127.0.0.1")
    wrong = dataclasses.replace(listener.invitation, certificate=other.invitation.certificate)
    with ThreadPoolExecutor(1) as pool:
        admitted = pool.submit(lambda: listener.admit(listener.accept()))
        with pytest.raises(ChannelClosed, match="CERTIFICATE_VERIFY_FAILED"):
            connect(wrong)
        with pytest.raises(ChannelClosed):
            admitted.result(WAIT_S)
    other.close()
    with pytest.raises(ChannelClosed):
        connect(other.invitation)


@pytest.mark.parametrize(
    "frame", [LENGTHS.pack(2, MOST_BYTES + 1), LENGTHS.pack(1 << 30, 0), LENGTHS.pack(2, 0) + b"{{"]
)
def test_a_frame_that_nobody_sends_ends_the_channel(listener: Listener, frame: bytes) -> None:
    driver, worker = pair(listener)
    worker.send_bytes(frame)
    with pytest.raises(ChannelClosed, match="what no worker sends"):
        driver.receive(WAIT_S)


def test_what_travels_is_encrypted_and_the_token_is_not_shown(listener: Listener) -> None:
    assert listener.invitation.token.hex() not in repr(listener.invitation)
    assert str(listener.invitation.token) not in repr(listener.invitation)
    driver, worker = pair(listener)
    connection: ssl.SSLSocket = driver._connection
    assert connection.version() == "TLSv1.3"
    worker.close()


def test_a_file_without_a_name_can_be_read_by_its_path() -> None:
    with nameless_file(b"secret") as path, Path(path).open("rb") as file:
        assert file.read() == b"secret"
