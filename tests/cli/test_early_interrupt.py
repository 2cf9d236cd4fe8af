"""Ctrl-C while captures are indexed: the first one reports on what was indexed, the second one ends all."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.command import environment

CAPTURE = Path(__file__).parents[2] / "captures" / "pause.pcapng"

SLOW_INDEX = """
import os, sys, time
from functools import partial
from kdissect.capture.index import index, split_stats
from kdissect.cli.main import main

count_records, walked, process = split_stats.count_records, [], os.getpid()

def count_slowly(*arguments):
    if os.getpid() == process:
        walked.append(1)
        if len(walked) == 5:
            print("under way", file=sys.stderr, flush=True)
        time.sleep(0.1)
    return count_records(*arguments)

split_stats.count_records = count_slowly
index.index_captures = partial(index.index_captures, chunk_bytes=5_000)
sys.exit(main(sys.argv[1:]))
"""
"""The command with an index that takes a tenth of a second for 5 kB."""


def start(*arguments: str | Path) -> "subprocess.Popen[bytes]":
    run = subprocess.Popen(
        [sys.executable, "-c", SLOW_INDEX, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(KDISSECT_STARTUP="-local_scan"),
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )
    wait_for(run, b"under way")
    run.send_signal(signal.SIGINT)
    return run


def wait_for(run: "subprocess.Popen[bytes]", text: bytes) -> None:
    assert run.stderr
    for line in run.stderr:
        if text in line:
            return
    raise AssertionError(f"no {text!r}, and exit code {run.wait()}")


def share_read(errors: bytes) -> float:
    told = re.search(rb"interrupted: only ([\d.]+) KiB of ([\d.]+) KiB were read", errors)
    assert told, errors
    return float(told[1]) / float(told[2])


@pytest.mark.spark
def test_a_report_on_what_was_indexed() -> None:
    run = start("analyze", CAPTURE, "--full")
    output, errors = run.communicate(timeout=250)
    assert run.returncode == 130, errors.decode()
    assert 0.05 < share_read(errors) < 0.5
    assert b"Traceback" not in errors
    assert b"Profile" in output
    assert share_read(output) == share_read(errors)


@pytest.mark.spark
def test_the_second_one_ends_at_once() -> None:
    run = start("analyze", CAPTURE)
    wait_for(run, b"interrupted: what came until now is reported")
    run.send_signal(signal.SIGINT)
    output, errors = run.communicate(timeout=60)
    assert run.returncode == 130, errors.decode()
    assert output == b""
    assert b"Traceback" not in errors


@pytest.mark.slow
def test_a_dump_of_what_was_indexed() -> None:
    run = start("dump", "--brief", CAPTURE)
    output, errors = run.communicate(timeout=60)
    assert run.returncode == 130, errors.decode()
    assert 0.05 < share_read(errors) < 0.5
    everything = subprocess.run(
        [sys.executable, "-m", "kdissect", "dump", "--brief", CAPTURE],
        capture_output=True,
        check=True,
        env=environment(),
    ).stdout.splitlines()
    lines = output.splitlines()
    assert 0 < len(lines) < len(everything) / 2
    finished = [line for line in lines if line in everything]
    assert len(finished) > len(lines) / 2  # others wait for responses that were not read


@pytest.mark.slow
def test_a_slice_of_what_was_indexed(tmp_path: Path) -> None:
    run = start("slice", CAPTURE, "-o", tmp_path / "part.pcapng")
    _, errors = run.communicate(timeout=60)
    assert run.returncode == 130, errors.decode()
    assert 0.05 < share_read(errors) < 0.5
    assert 0 < (tmp_path / "part.pcapng").stat().st_size < CAPTURE.stat().st_size / 2


@pytest.mark.spark
def test_no_replay_log_of_what_was_indexed(tmp_path: Path) -> None:
    run = start("replay", "load", CAPTURE, "--out", tmp_path / "logs" / "log")
    _, errors = run.communicate(timeout=60)
    assert run.returncode == 130, errors.decode()
    assert b"Traceback" not in errors
    assert b"reported" not in errors
    assert list((tmp_path / "logs").iterdir()) == []
