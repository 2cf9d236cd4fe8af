"""Workers find all modules loaded before the fork, and Numba set up only if kernels are compiled."""

import ast
import gc
import importlib
import subprocess
import sys
from pathlib import Path

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


def test_a_function_is_called_whenever_a_module_is_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not for what it imports itself, and not afterwards."""
    (tmp_path / "first_of_three.py").write_text("import second_of_three")
    (tmp_path / "second_of_three.py").touch()
    (tmp_path / "third_of_three.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(load_once, "MODULES", ("first_of_three",))
    monkeypatch.setattr(load_once, "set_up_numba", lambda: None)
    seen: list[list[str]] = []
    names = ("first_of_three", "second_of_three", "third_of_three")

    def between() -> None:
        seen.append([name for name in names[:2] if name in sys.modules])
        importlib.import_module(names[2])

    finders = [*sys.meta_path]
    load_once.load(between)
    assert seen == [[], ["first_of_three"], ["first_of_three", "second_of_three"]]
    assert sys.meta_path == finders
    for name in names:
        del sys.modules[name]
