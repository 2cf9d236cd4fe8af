"""The daemon that is forked ahead: who may have it, and that it ends with its parent."""

import marshal
import os
import socket
import sys
import threading
from pathlib import Path

import pytest

from kdissect.capture import storage
from kdissect.spark.startup import prefork
from kdissect.spark.startup.hand_over import ADDRESS, hand_over
from kdissect.spark.startup.prefork import LONGEST_ADDRESS, PreforkedDaemon, can_prefork


def test_a_long_path_leaves_no_room_for_a_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "uvloop", raising=False)  # of a replay before
    monkeypatch.setattr(storage, "_made_client", threading.Event())  # of tests before
    assert can_prefork(Path("/tmp/kdissect-x/standby"))
    assert not can_prefork(Path("/" + "x" * LONGEST_ADDRESS))


def test_a_process_with_a_client_of_an_object_store_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "uvloop", raising=False)
    monkeypatch.setattr(storage, "_made_client", threading.Event())
    storage.file_system("s3://bucket/captures?region=us-east-1")  # asks nobody yet
    assert storage.has_clients()
    assert not can_prefork(Path("/tmp/kdissect-x/standby"))


def test_the_child_ends_with_its_parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefork, "preload", lambda: None)
    daemon = PreforkedDaemon(tmp_path / "socket")
    child = daemon._child
    os.kill(child, 0)
    daemon.end()
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


@pytest.mark.slow
def test_without_the_shortcut_nothing_is_warmed_up(monkeypatch: pytest.MonkeyPatch) -> None:
    warmed: list[bool] = []
    monkeypatch.setattr("kdissect.spark.startup.warmup.warm_up", lambda: warmed.append(True))
    monkeypatch.setattr("gc.freeze", lambda: None)
    monkeypatch.setattr("kdissect.spark.startup.load_once.load", lambda: None)
    monkeypatch.delenv("KDISSECT_JIT", raising=False)
    prefork.preload()
    monkeypatch.setenv("KDISSECT_STARTUP", "-warm_up")
    prefork.preload()
    assert warmed == [True]


def test_a_large_environment_arrives_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A socket passes on at once what its buffer holds, some 36 KB."""
    monkeypatch.setenv("LARGE", "x" * 300_000)
    monkeypatch.setenv(ADDRESS, str(tmp_path / "socket"))
    taken: list[bytes] = []
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "socket"))
    listener.listen()

    def take() -> None:
        connection, _ = listener.accept()
        with connection:
            message, pipes = prefork.take_over(connection)
            taken.append(message)
            for pipe in pipes:
                os.close(pipe)

    taker = threading.Thread(target=take)
    taker.start()
    assert not hand_over()  # nobody answers
    taker.join()
    listener.close()
    _, environment = marshal.loads(taken[0])
    assert environment["LARGE"] == "x" * 300_000
