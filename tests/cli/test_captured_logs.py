"""`cli.captured_logs`: a large capture becomes a log once, and every later command reads that."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from kdissect.cli import captured_logs
from kdissect.cli.captured_logs import FOLDER, exit_code_of, logged_paths
from kdissect.errors import UserError
from kdissect.replay.load.log_files import is_log
from tests.helpers.recorded import CAPTURES
from tests.helpers.replay_logs import make_log


@pytest.fixture
def chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> argparse.Namespace:
    """Options that name a capture, and a program that makes logs without Spark."""
    capture = tmp_path / "some.pcapng"
    shutil.copy(CAPTURES / "pause.pcapng", capture)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(captured_logs, "FROM_BYTES", 1000)

    def load(command: list[str], _variables: object) -> int:
        place = Path(command[command.index("--out") + 1])
        try:
            make_log([str(capture)], place)
        except UserError:
            return 2
        return 0

    monkeypatch.setattr(captured_logs, "exit_code_of", load)
    return argparse.Namespace(paths=[str(capture)], port=[], keylog=None, quiet=True)


def read(chosen: argparse.Namespace, notices: list[str]) -> tuple[list[str], bool]:
    """Return the paths that a command reads, and whether they are a log while it runs."""
    with ExitStack() as stack:
        paths, _, _ = logged_paths(chosen, stack, notices.append)
        return list(paths), is_log(paths[0])


def test_a_log_is_made_once(chosen: argparse.Namespace, monkeypatch: pytest.MonkeyPatch) -> None:
    notices: list[str] = []
    (log,), logged = read(chosen, notices)
    assert (logged, Path(log).parent.name, notices) == (True, FOLDER, [])
    monkeypatch.delattr(captured_logs, "exit_code_of")
    assert read(chosen, notices) == ([log], True)
    assert len(notices) == 1
    assert log in notices[0]


def test_a_changed_capture_becomes_another_log(chosen: argparse.Namespace) -> None:
    (first,), _ = read(chosen, [])
    os.utime(chosen.paths[0], (1, 1))
    (second,), logged = read(chosen, [])
    assert second != first
    assert logged
    assert not Path(first).exists()


def test_few_logs_are_kept(chosen: argparse.Namespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(captured_logs, "MOST_LOGS", 2)
    for port in (1, 2, 3):
        chosen.port = [port]
        (log,), _ = read(chosen, [])
    assert len(list(Path(log).parent.iterdir())) == 2


def test_small_and_unreadable_captures_are_read_as_they_are(
    chosen: argparse.Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path(chosen.paths[0]).write_bytes(b"no capture" * 200)
    assert read(chosen, []) == (chosen.paths, False)
    monkeypatch.setattr(captured_logs, "FROM_BYTES", 1 << 20)
    assert read(chosen, []) == (chosen.paths, False)


def test_decrypted_traffic_is_not_kept(chosen: argparse.Namespace, tmp_path: Path) -> None:
    chosen.keylog = str(tmp_path / "keys")
    (log,), logged = read(chosen, [])
    assert logged
    assert not Path(log).exists()


SLOW_TO_END = """
import signal, sys, time

def end(*_):
    time.sleep(0.5)
    open(sys.argv[1], "w").close()
    sys.exit()

signal.signal(signal.SIGTERM, end)
open(sys.argv[1] + "-began", "w").close()
time.sleep(60)
"""


def test_what_ends_the_command_lets_the_load_clear_up(tmp_path: Path) -> None:
    began, ended = tmp_path / "load-began", tmp_path / "load"

    def interrupt() -> None:
        while not began.exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        exit_code_of([sys.executable, "-c", SLOW_TO_END, str(ended)], os.environ)
    thread.join()
    assert ended.exists()
