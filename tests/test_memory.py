"""Memory that a task has freed goes back to the system."""

import subprocess
import sys

import pytest

from kdissect import memory
from tests.bench.measure import run

HOLD = """
from pathlib import Path
from kdissect.memory import release_memory
def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
blocks = [bytearray(50_000) for _ in range(2000)]
keep = blocks[::100]
del blocks
before = resident()
release_memory()
assert before - resident() > 50_000_000, (before, resident())
"""
IN_USE = r"""
import kdissect.cli, sys
assert "pyarrow" not in sys.modules
kdissect.cli.main(["completion", "bash"])
import pyarrow
print("\n" + pyarrow.default_memory_pool().backend_name)
"""


def test_freed_blocks_are_returned() -> None:
    assert run([sys.executable, "-c", HOLD]).seconds > 0


def test_another_c_library_is_no_fault(monkeypatch) -> None:
    monkeypatch.setattr(memory, "_malloc_trim", lambda: None)
    assert memory.release_memory() is None


@pytest.mark.parametrize("chosen", [None, "mimalloc"])
def test_the_command_uses_the_allocator_of_the_system(
    monkeypatch: pytest.MonkeyPatch, chosen: str | None
) -> None:
    monkeypatch.delenv("ARROW_DEFAULT_MEMORY_POOL", raising=False)
    if chosen:
        monkeypatch.setenv("ARROW_DEFAULT_MEMORY_POOL", chosen)
    done = subprocess.run([sys.executable, "-c", IN_USE], capture_output=True, text=True, check=True)
    assert done.stdout.split()[-1] == (chosen or "system")
