"""Keep other packages from importing what is not used here.

PyArrow and PySpark import pandas, which takes half a second. Numba imports yaml for a file of settings, and
cffi for kernels that call C, which takes 0.05 s. For each argument of a call to Java PySpark asks its
package of tests whether NumPy is there, which takes 0.1 s while Spark starts. NumPy starts threads for linear
algebra.
"""

import os
import sys
from collections.abc import Sequence
from types import ModuleType

BLOCKED = ("pandas", "yaml", "cffi")

TESTS = "pyspark.testing"
TESTS_STAND_IN = (TESTS, f"{TESTS}.utils")

ONE_THREAD = ("OPENBLAS_NUM_THREADS", "1")
"""The variable that NumPy's linear algebra reads when it is loaded."""


class Blocker:
    """A finder of modules for which the packages of BLOCKED are not installed."""

    @staticmethod
    def find_spec(name: str, _path: Sequence[str] | None, _target: object = None) -> None:
        """Raise ModuleNotFoundError for what is blocked; leave everything else to other finders."""
        if name in BLOCKED:
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)


def block_unused() -> None:
    """Hide the packages from this process and those that it forks."""
    os.environ.setdefault(*ONE_THREAD)
    if Blocker not in sys.meta_path:
        sys.meta_path.insert(0, Blocker)
        for name in TESTS_STAND_IN:
            sys.modules.setdefault(name, _StandIn(name))


def allow_all() -> None:
    """Make the packages importable again."""
    if Blocker in sys.meta_path:
        sys.meta_path.remove(Blocker)
        for name in TESTS_STAND_IN:
            if isinstance(sys.modules.get(name), _StandIn):
                del sys.modules[name]


class _StandIn(ModuleType):
    """A module that answers the only question that PySpark asks its tests."""

    have_numpy = True
