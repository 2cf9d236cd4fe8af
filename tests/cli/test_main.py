"""From a signal, a closed pipe or a failure to an exit code."""

import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.helpers.command import COMMAND, environment, interrupted
from tests.helpers.tiers import thorough_after

ROOT = Path(__file__).parents[2]


CAPTURE = ROOT / "captures" / "cluster-life.pcapng"


PCAP = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)


INTERRUPTED_IMPORT = """
import os, signal, sys

class Interrupts:
    def find_spec(name, path=None, target=None):
        if name == sys.argv[1]:
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Interrupts)
from kdissect.cli import main
sys.exit(main(["schema", "Fetch"]))
"""
"""The start of the installed command, with a Ctrl-C when it looks for a module."""


@pytest.mark.parametrize(
    "module",
    [
        "kdissect.cli.main",
        "argparse",
        "kdissect.files",
        "kdissect.cli.payload_options",
        "kdissect.cli.schema",
    ],
)
def test_an_interrupt_of_the_imports_is_no_traceback(module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-c", INTERRUPTED_IMPORT, module],
        capture_output=True,
        env=environment(),
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


@pytest.mark.thorough
@pytest.mark.spark
def test_a_reader_that_goes_away_is_no_error() -> None:
    run = subprocess.Popen(
        [*COMMAND, "analyze", "--quiet", CAPTURE],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(),
    )  # fmt: skip
    assert run.stdout
    assert run.stderr
    run.stdout.close()
    assert run.wait(timeout=250) == 0
    assert run.stderr.read() == b""
    run.stderr.close()


@pytest.mark.spark
def test_the_first_interrupt_reports_what_was_read() -> None:
    # Without a scan at start-up: else everything may be read before the signal comes.
    arguments = ("analyze", CAPTURE, "--split-bytes", "50000", "--full")
    code, output, errors = interrupted(*arguments, KDISSECT_STARTUP="-local_scan")
    assert code == 130, errors.decode()
    assert b"interrupted: what came until now is reported" in errors
    assert b"interrupted: only 49.1 KiB of 789 KiB were read" in errors
    assert b"Traceback" not in errors
    assert b"interrupted: only" in output


@pytest.mark.spark
@pytest.mark.parametrize(
    ("moment", "number", "code"),
    thorough_after(
        2,
        [
            ("starting", signal.SIGTERM, 143),
            ("working", signal.SIGINT, 130),
            ("starting", signal.SIGINT, 130),
            ("working", signal.SIGTERM, 143),
        ],
    ),
)
def test_interrupts_end_everything(moment: str, number: signal.Signals, code: int, tmp_path: Path) -> None:
    run = subprocess.Popen(
        [*COMMAND, "analyze", "-", "--split-bytes", "50000"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # Without a scan at start-up: else everything may be read before the signal comes.
        env=environment(TMPDIR=str(tmp_path), KDISSECT_STARTUP="-local_scan"),
        # The shell that runs the tests may ignore the signal.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )
    assert run.stdin
    assert run.stderr
    if moment == "working":
        run.stdin.write(CAPTURE.read_bytes())
        run.stdin.close()
        assert b"pcapng" in run.stderr.readline()
    else:
        run.stdin.write(PCAP)
        run.stdin.flush()
        while not list(tmp_path.glob("kdissect-*/spool-*")) and run.poll() is None:
            time.sleep(0.01)
    run.send_signal(number)
    if moment == "working" and number == signal.SIGINT:  # the first one ends the reading only
        while b"interrupted" not in run.stderr.readline() and run.poll() is None:
            pass
        run.send_signal(number)
    ended, errors = run.wait(timeout=60), run.stderr.read()
    assert ended == code, errors.decode()
    assert b"Traceback" not in errors
    run.stderr.close()
    if not run.stdin.closed:
        run.stdin.close()
