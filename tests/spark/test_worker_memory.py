"""Memory that a task has freed goes back to the system."""

import sys

from kdissect.spark import worker_memory
from tests.bench.measure import run

HOLD = """
from pathlib import Path
from kdissect.spark.worker_memory import release_memory
def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
blocks = [bytearray(50_000) for _ in range(2000)]
keep = blocks[::100]
del blocks
before = resident()
release_memory()
assert before - resident() > 50_000_000, (before, resident())
"""


def test_freed_blocks_are_returned() -> None:
    assert run([sys.executable, "-c", HOLD]).seconds > 0


def test_another_c_library_is_no_fault(monkeypatch) -> None:
    monkeypatch.setattr(worker_memory, "_malloc_trim", lambda: None)
    assert worker_memory.release_memory() is None
