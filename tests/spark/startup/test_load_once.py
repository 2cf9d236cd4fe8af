"""Workers find all modules loaded before the fork, and Numba set up only if kernels are compiled."""

import ast
import gc
import subprocess
import sys

import pytest

from kdissect.spark.startup import load_once

LOADED = """
import sys
from kdissect.spark.startup import load_once
load_once.load()
print("pyspark.worker" in sys.modules, "kdissect.spark.tasks" in sys.modules, "numba" in sys.modules)
"""

LOADED_LATER = """
import sys
from kdissect.spark.startup.block_unused import block_unused
block_unused()
from kdissect.spark.startup import load_once
load_once.load()
before = set(sys.modules)
from kdissect.spark.startup.warmup import warm_up
warm_up()
print(sorted(set(sys.modules) - before))
"""


def test_kernels_need_no_module_that_is_not_loaded_once() -> None:
    """PyArrow loads dateutil for intervals of months, which takes two milliseconds. A kernel sorts."""
    program = [sys.executable, "-c", LOADED_LATER]
    done = subprocess.run(program, capture_output=True, text=True, check=True)
    later = {name for name in ast.literal_eval(done.stdout) if not name.startswith(("dateutil", "six"))}
    assert later <= {"numba.cpython.listobj", "numba.cpython.slicing", "numba.misc.quicksort"}


def test_modules_of_the_workers_are_loaded_and_no_compiler_where_none_is_used() -> None:
    from tests.helpers.command import environment

    program = [sys.executable, "-c", LOADED]
    done = subprocess.run(
        program, env=environment(KDISSECT_JIT="0"), capture_output=True, text=True, check=True
    )
    assert done.stdout == "True True False\n"


def test_garbage_is_collected_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_once, "MODULES", ("json",))
    monkeypatch.setattr(load_once, "set_up_numba", lambda: None)
    load_once.load()
    assert gc.isenabled()
    monkeypatch.setattr(load_once, "MODULES", ("no_such_module",))
    with pytest.raises(ModuleNotFoundError):
        load_once.load()
    assert gc.isenabled()
