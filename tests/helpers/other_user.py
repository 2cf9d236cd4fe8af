"""Another user of the same machine, who attacks: programs that run under a second user id.

Only root may start them (setpriv(1)); elsewhere these tests are skipped. Directories that both users see are
made here, since those of pytest belong to one user alone.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

OTHER = 54321
"""The user id and group id of the attacker, which no account has."""

AS_OTHER = ("setpriv", f"--reuid={OTHER}", f"--regid={OTHER}", "--clear-groups")
PYTHON = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
"""An interpreter that everybody may start; a virtual environment may lie in a directory of root."""


def other_may_start_python() -> bool:
    """Return whether the other user can start this Python, whose libraries may lie in a directory of root."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        return False
    command = [*AS_OTHER, PYTHON, "-I", "-S", "-c", ""]
    return subprocess.run(command, capture_output=True, check=False, cwd="/").returncode == 0


needs_other_user = pytest.mark.skipif(
    not other_may_start_python(),
    reason="a second user needs root, setpriv and a Python that others may start",
)


def as_other(program: str, *arguments: object, seconds: float = 60) -> str:
    """Run a program in Python as the other user. Return what it prints."""
    command = [*AS_OTHER, PYTHON, "-I", "-S", "-c", program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds, cwd="/")
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def directory_for_all(sticky: bool = True) -> Iterator[Path]:
    """Return a directory in which everybody may write, like /tmp."""
    with tempfile.TemporaryDirectory(prefix="shared-") as name:
        Path(name).chmod(0o1777 if sticky else 0o777)
        yield Path(name)
