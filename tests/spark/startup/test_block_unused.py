"""Packages that are not used are hidden from a process, and come back."""

import subprocess
import sys

import pytest

from kdissect.spark.startup.block_unused import BLOCKED

PROGRAM = """
import sys
from kdissect.spark.startup.block_unused import BLOCKED, allow_all, block_unused
block_unused(), block_unused()
import pyarrow, pyarrow.parquet, numba
for name in BLOCKED:
    assert name not in sys.modules
    try:
        __import__(name)
    except ModuleNotFoundError as absent:
        assert absent.name == name
    else:
        raise AssertionError(f"{name} was imported")
allow_all(), allow_all()
import importlib.util
print([importlib.util.find_spec(name) is not None for name in BLOCKED])
"""

ARRAYS = """
import sys
from kdissect.spark.startup.block_unused import allow_all, block_unused
block_unused()
import numpy
from pyspark.sql.types import NumpyArrayConverter
assert NumpyArrayConverter().can_convert(numpy.zeros(1))
assert not NumpyArrayConverter().can_convert("text")
assert "unittest" not in sys.modules
import threading, os
assert len(os.listdir("/proc/self/task")) == threading.active_count(), "threads of linear algebra"
allow_all()
from pyspark.testing.utils import assertDataFrameEqual
"""


def _run(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_packages_are_absent_until_they_are_allowed_again() -> None:
    found = "import importlib.util; print([importlib.util.find_spec(name) is not None for name in %r])"
    assert _run(PROGRAM) == _run(found % (BLOCKED,))


def test_pyspark_knows_arrays_without_its_tests() -> None:
    assert _run(ARRAYS) == ""


def test_a_fault_of_the_program_would_be_seen() -> None:
    with pytest.raises(AssertionError):
        _run(PROGRAM.replace("block_unused(), block_unused()", ""))
