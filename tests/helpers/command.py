"""The command as people run it, from the very copy of the package that the tests import.

The cache of compiled loops goes by the place of the sources: an installed kdissect and the one in the
checkout would each compile their own. So the folder in which Python is started is kept out of the path, and
that of the package put into it.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

import kdissect as package
from kdissect.startup_switch import STARTUP_VARIABLE

COMMAND = (sys.executable, "-P", "-m", "kdissect")
WITHOUT_SPARK = {STARTUP_VARIABLE: "+in_process"}
"""Variables with which small captures take half the time, for tests of what follows Spark's work."""


def environment(**more: str) -> dict[str, str]:
    """Return the variables to start Python with."""
    return os.environ | {"PYTHONPATH": str(Path(package.__file__).parents[1])} | more


def kdissect(
    *arguments: str | Path, stdin: bytes | None = None, **more: str
) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    done = subprocess.run(
        [*COMMAND, *map(str, arguments)],
        input=stdin, capture_output=True, env=environment(**more), timeout=280, check=False,
    )  # fmt: skip
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def interrupted(*arguments: str | Path, **more: str) -> tuple[int, bytes, bytes]:
    """Run the command, and send SIGINT when it has told what it reads. Return its code, output and errors."""
    run = subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(**more),
        # The shell that runs the tests may ignore the signal.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )
    assert run.stderr
    for line in run.stderr:
        if b"packets," in line:
            break
    run.send_signal(signal.SIGINT)
    output, errors = run.communicate(timeout=250)
    return run.returncode, output, errors


def assert_one_sentence(text: str) -> None:
    assert text.startswith("kdissect")
    assert text.count("\n") == 1
    assert "Traceback" not in text
    assert "Exception" not in text
