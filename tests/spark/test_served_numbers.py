"""Tasks of a cluster note numbers with the driver."""

import pickle
import socket
import time
from collections.abc import Iterator

import pytest

from kdissect.spark import served_numbers
from kdissect.spark.reading_stop import Interruption, ReadingStop
from kdissect.spark.served_numbers import NumberServer, RemoteNumbers
from tests.spark.test_reading_stop import pieces, splits_of

HERE = ("127.0.0.1", "127.0.0.1")


@pytest.fixture
def server() -> Iterator[NumberServer]:
    server = NumberServer(lambda: HERE)
    yield server
    server.end()


def test_the_address_that_a_server_sees() -> None:
    assert served_numbers.address_towards("127.0.0.1", 15002) == "127.0.0.1"
    assert served_numbers.address_towards("nowhere.invalid", 15002) == ""


def test_driver_and_tasks_see_the_same_numbers(server: NumberServer) -> None:
    first, other = server.new_log(), server.new_log()
    task: RemoteNumbers = pickle.loads(pickle.dumps(first))
    assert task.numbers() == []
    assert task.first(7) == 7
    assert first.first(8) == 7
    task.append(-3)
    first.append(1 << 62)
    assert task.numbers() == first.numbers() == [7, -3, 1 << 62]
    assert pickle.loads(pickle.dumps(task)).numbers() == first.numbers()
    assert other.numbers() == []
    assert abs(task.clock_ns() - first.clock_ns()) < 1e9
    first.forget()
    assert task.numbers() == []


def test_a_stranger_is_not_served(server: NumberServer) -> None:
    log = server.new_log()
    log.append(5)
    host, port, secret = server.address()
    assert RemoteNumbers(served_numbers.Address(host, port, bytes(16)), 0).numbers() == []
    with socket.create_connection((host, port)) as stranger:
        stranger.sendall(bytes(len(secret)))
        assert stranger.recv(1) == b""
    with socket.create_connection((host, port)):  # says nothing, and keeps nobody waiting
        assert pickle.loads(pickle.dumps(log)).numbers() == [5]


def test_without_the_driver_nothing_is_noted(server: NumberServer) -> None:
    task = pickle.loads(pickle.dumps(server.new_log()))
    lost = RemoteNumbers(served_numbers.Address("127.0.0.1", 1, bytes(16)), 0)
    begun = time.monotonic()
    lost.append(1)
    assert lost.numbers() == []
    assert lost.first(4) == 4
    assert time.monotonic() - begun < served_numbers.CONNECT_SECONDS
    assert task.numbers() == []


def test_tasks_of_a_cluster_end_together(server: NumberServer) -> None:
    stop = ReadingStop.of(lambda _name: server.new_log())
    ahead, behind = (pickle.loads(pickle.dumps(stop)) for _ in range(2))
    assert not ahead.ends_index()
    stop.ask_index()
    assert ahead.ends_index()
    assert not stop.is_asked_for
    ahead, behind = ahead.reading(pieces(9)), behind.reading(pieces(9))
    assert splits_of(next(ahead) for _ in range(4)) == [0, 1, 2, 3]
    next(behind)
    stop.ask()
    time.sleep(0.05)  # a task knows the driver's clock as well as it has heard it
    assert splits_of(behind) == [1, 2, 3]
    assert splits_of(ahead) == []
    assert splits_of(pickle.loads(pickle.dumps(stop)).reading(pieces(9))) == []
    assert stop.settle() == Interruption(4, 1)
