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
assert before - resident() > 30_000_000, (before, resident())
"""
IN_USE = r"""
import kdissect.cli, sys
assert "pyarrow" not in sys.modules
kdissect.cli.main(["completion", "bash"])
import pyarrow
print("\n" + pyarrow.default_memory_pool().backend_name)
"""


LOADED = """
import gc, sys
from kdissect.memory import collect_seldom, loading
if sys.argv[1:]:
    collect_seldom()
with loading():
    assert not gc.isenabled()
    kept = [[] for _ in range(1000)]
assert gc.isenabled()
print(gc.get_freeze_count() > 1000)
"""


@pytest.mark.parametrize("arguments", [[], ["as a command"]])
def test_only_a_command_takes_what_it_loaded_from_the_collector(arguments: list[str]) -> None:
    program = [sys.executable, "-c", LOADED, *arguments]
    done = subprocess.run(program, capture_output=True, text=True, check=True)
    assert done.stdout == f"{bool(arguments)}\n"


THRESHOLD = """
import atexit, gc, sys
from kdissect import cli
atexit.register(lambda: sys.stderr.write(str(gc.get_threshold()[0])))  # a command does not return
"""


def test_a_command_looks_for_garbage_seldom_and_a_caller_of_main_as_before() -> None:
    for call, seldom in (("cli.main()", True), ("cli.main(['completion', 'bash'])", False)):
        program = THRESHOLD + call
        done = subprocess.run(
            [sys.executable, "-c", program, "completion", "bash"], capture_output=True, text=True, check=True
        )
        assert (int(done.stderr) == memory.COLLECT_AFTER) is seldom


def test_freed_blocks_are_returned() -> None:
    assert run([sys.executable, "-c", HOLD]).seconds > 0


SHARED = """
from pathlib import Path
from threading import Thread
from kdissect.memory import release_memory, share_arena
share_arena()
release_memory()
def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
def work():
    for _ in range(2):  # the second time, the library knows that blocks of this size come and go
        kept = [bytearray(20_000_000) for _ in range(2)]
before = resident()
threads = [Thread(target=work) for _ in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
release_memory()
assert resident() - before < 12_000_000, (before, resident())
"""


def test_threads_of_a_command_keep_nothing_that_they_free() -> None:
    assert run([sys.executable, "-c", SHARED]).seconds > 0


def test_another_c_library_is_no_fault(monkeypatch) -> None:
    monkeypatch.setattr(memory, "_libc_function", lambda _: None)
    assert memory.release_memory() is None
    assert memory.share_arena() is None


@pytest.mark.parametrize("chosen", [None, "mimalloc"])
def test_the_command_uses_the_allocator_of_the_system(
    monkeypatch: pytest.MonkeyPatch, chosen: str | None
) -> None:
    monkeypatch.delenv("ARROW_DEFAULT_MEMORY_POOL", raising=False)
    if chosen:
        monkeypatch.setenv("ARROW_DEFAULT_MEMORY_POOL", chosen)
    done = subprocess.run([sys.executable, "-c", IN_USE], capture_output=True, text=True, check=True)
    assert done.stdout.split()[-1] == (chosen or "system")
