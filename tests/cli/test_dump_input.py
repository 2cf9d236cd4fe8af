"""`dump -`: exchanges of a pipe come out before it ends, and the first Ctrl-C shows what has come."""

import os
import signal
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

import pytest

from tests.helpers.command_here import kdissect_here

CAPTURE = Path(__file__).parents[2] / "captures" / "pause.pcapng"
COMMAND = [sys.executable, "-m", "kdissect", "dump", "--brief"]
UNCOMPILED = os.environ | {"KDISSECT_JIT": "0"}


@cache
def files_dump() -> list[str]:
    return kdissect_here("dump", "--brief", CAPTURE).stdout.splitlines()


@pytest.mark.slow
def test_a_pipe_has_the_exchanges_of_the_file() -> None:
    with CAPTURE.open("rb") as file:
        done = subprocess.run([*COMMAND, "-"], stdin=file, env=UNCOMPILED, capture_output=True, check=True)
    assert sorted(done.stdout.decode().splitlines()) == sorted(files_dump())


@pytest.mark.slow
@pytest.mark.parametrize("end", ["close", "interrupt"])
def test_lines_come_before_the_pipe_ends(end: str) -> None:
    running = subprocess.Popen(
        [*COMMAND, "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=UNCOMPILED
    )
    assert running.stdin is not None
    assert running.stdout is not None
    assert running.stderr is not None
    data = CAPTURE.read_bytes()
    running.stdin.write(data[: len(data) // 2])
    running.stdin.flush()
    first = running.stdout.readline()
    assert b"ApiVersions" in first
    if end == "interrupt":
        time.sleep(1)
        running.send_signal(signal.SIGINT)
    else:
        running.stdin.close()
    rest = running.stdout.read().splitlines()
    assert running.wait(60) == 0
    assert 20 < len(rest) < len(files_dump()) - 1
    error = running.stderr.read().decode()
    assert ("interrupted" in error) == (end == "interrupt")
    assert "Traceback" not in error
    running.stdin.close()
    running.stdout.close()
    running.stderr.close()


@pytest.mark.slow
def test_a_limit_is_no_cut_of_the_capture() -> None:
    with CAPTURE.open("rb") as file:
        done = subprocess.run(
            [*COMMAND, "-", "--limit", "1"], stdin=file, env=UNCOMPILED, capture_output=True, check=True
        )
    assert done.stdout.count(b"\n") == 1
    assert done.stderr == b""


def test_an_empty_pipe_is_one_sentence() -> None:
    done = subprocess.run([*COMMAND, "-"], input=b"", env=UNCOMPILED, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr == b"kdissect: standard input is empty\n"
