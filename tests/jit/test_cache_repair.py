"""Compiled code that is damaged on disk is compiled anew; nobody notices but by the time it takes."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.command import environment
from tests.helpers.tiers import thorough_after

SOURCE = """
from kdissect.jit.decorators import jit

@jit
def doubled(number):
    return 2 * number

print(doubled(21), sum(doubled.stats.cache_hits.values()))
"""


def run(folder: Path) -> list[str]:
    """Run a program with one kernel; give what it computes, and how many kernels it found compiled."""
    cache = {"NUMBA_CACHE_DIR": str(folder / "kept"), "KDISSECT_JIT": "1"}
    done = subprocess.run(
        [sys.executable, folder / "program.py"],
        capture_output=True, text=True, env=environment(**cache), check=True, timeout=200,
    )  # fmt: skip
    return done.stdout.split()


@pytest.mark.slow
@pytest.mark.parametrize("kind", thorough_after(1, ["nbi", "nbc"]))
def test_a_file_that_is_cut_off_is_written_anew(tmp_path: Path, kind: str) -> None:
    (tmp_path / "program.py").write_text(SOURCE)
    assert run(tmp_path) == ["42", "0"]
    assert run(tmp_path) == ["42", "1"]
    for damage in (b"", b"not compiled code", None):
        (path,) = (tmp_path / "kept").rglob(f"*.{kind}")
        path.write_bytes(path.read_bytes()[:100] if damage is None else damage)
        assert run(tmp_path) == ["42", "0"]
        assert run(tmp_path) == ["42", "1"]
