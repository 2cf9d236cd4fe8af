"""Commands that are stopped by a signal or by a full disk: the report is there at once, and says so.

Before anything is sent, and when all is sent, one sentence says what is left behind.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kdissect.errors import ExitCode
from tests.helpers.command import COMMAND, assert_one_sentence, environment
from tests.helpers.conversations import CAPTURES
from tests.helpers.null_target import null_target
from tests.helpers.tiers import thorough_after

CAPTURE = CAPTURES / "steady.pcapng"
REPORT_S = 10
OPTIONS = {
    "plan": [],
    "prepare": ["--execute"],
    "try": [],
    "run": ["--execute", "--pace", "asap", "--groups", "off"],
}

HANGING = """
import sys, time
from importlib import import_module

command = import_module("kdissect.cli.replay")

def hang(*_, **__):
    print("under way", file=sys.stderr, flush=True)
    time.sleep(100)

command.missing_topics = lambda _: ["orders"]
setattr(command, sys.argv[1], hang)
sys.exit(import_module("kdissect.cli.main").main(sys.argv[2:]))
"""
"""The command with one step that does not end, and a target that lacks a topic."""

PHASES = [
    ("plan", "make_plan", "nothing was planned", signal.SIGTERM),
    ("prepare", "create_topics", "some of the topics may have been created", signal.SIGINT),
    ("try", "Replay", "nothing was created or sent", signal.SIGTERM),
    ("run", "save_pass", "the files of the run were not written", signal.SIGINT),
    ("plan", "Replay", "nothing was planned", signal.SIGINT),
    ("prepare", "missing_topics", "nothing was created", signal.SIGTERM),
    ("try", "create_topics", "some of the topics may have been created", signal.SIGINT),
    ("run", "make_plan", "nothing was sent", signal.SIGTERM),
    ("run", "compare", "kdissect replay compare reports on them", signal.SIGTERM),
]
"""A command, the step of it that is ended, what is told, and the signal; processes take long to start."""


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[Path]:
    """A file system of 17 MiB: as much as a run wants at least."""
    place = tmp_path / "tiny"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=17m", "tmpfs", str(place)]
    if os.getuid() or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root can mount a file system")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def start(out: Path, target: str, *more: str) -> subprocess.Popen[str]:
    """Start a run that takes minutes."""
    command = [*COMMAND, "replay", "run", str(CAPTURE), "--target", target, "--execute", "--out", str(out)]
    command += ["--speed", "0.1", "--format", "json", *more]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, env=environment(), text=True, **pipes)


def wait_until_sending(process: subprocess.Popen[str]) -> None:
    """Wait until the run has its connections, which it keeps."""
    deadline = time.monotonic() + 100
    while time.monotonic() < deadline and process.poll() is None:
        guards = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, check=False).stdout
        if guards:  # the process that saves what a killed run knew is begun just before
            time.sleep(2)
            return
        time.sleep(0.1)
    raise AssertionError(process.communicate())


@pytest.mark.slow
@pytest.mark.parametrize(("command", "step", "told", "stop"), thorough_after(1, PHASES))
def test_a_signal_ends_every_other_phase_with_a_sentence(
    tmp_path: Path, command: str, step: str, told: str, stop: signal.Signals
) -> None:
    out = tmp_path / "out" / "run"
    with null_target() as target:
        words = ["replay", command, str(CAPTURE), "--target", target, *OPTIONS[command]]
        words += ["--quiet", *(["--out", str(out)] if command in ("run", "try") else [])]
        run = subprocess.Popen(
            [sys.executable, "-c", HANGING, step, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(),
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
        )
        assert run.stderr is not None
        before = [run.stderr.readline()]
        while before[-1] not in ("under way\n", ""):
            before.append(run.stderr.readline())
        run.send_signal(stop)
        output, errors = run.communicate(timeout=REPORT_S)
    assert run.returncode == 128 + stop, before
    assert_one_sentence(errors)
    assert told in errors
    assert output == ""
    assert [each.name for each in out.parent.glob("*")] == (["run"] if step == "compare" else [])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stop", "processes"), thorough_after(1, [(signal.SIGTERM, "2"), (signal.SIGINT, "1")])
)
def test_a_signal_ends_a_run_with_its_report(tmp_path: Path, stop: signal.Signals, processes: str) -> None:
    with null_target() as target:
        run = start(tmp_path / "run", target, "--processes", processes)
        wait_until_sending(run)
        began = time.monotonic()
        run.send_signal(stop)
        told, errors = run.communicate(timeout=60)
        assert time.monotonic() - began < REPORT_S
    assert run.returncode == ExitCode.INVALID, errors
    report = json.loads(told)
    assert "incomplete: interrupted" in report["because"]
    assert report["accounting"]["captured"] == report["accounting"]["sent"] + report["accounting"]["skipped"]
    assert (tmp_path / "run" / "run.json").exists()


@pytest.mark.slow
def test_a_full_disk_ends_a_run_and_its_report_survives(tmp_path: Path, tiny: Path) -> None:
    with null_target() as target:
        run = start(tiny / "run", target)
        wait_until_sending(run)
        with (tiny / "filler").open("wb", buffering=0) as filler, contextlib.suppress(OSError):
            while True:
                filler.write(bytes(1 << 12))
        told, errors = run.communicate(timeout=60)
    assert run.returncode == ExitCode.USER_ERROR, errors
    because = json.loads(told)["because"]
    assert any("nothing more can be written to" in reason for reason in because), because
    assert "the files of the run could not be written" in errors
