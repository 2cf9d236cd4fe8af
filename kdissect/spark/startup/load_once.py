"""Modules that both this process and Spark's Python workers need, loaded once before the daemon is forked.

Modules of both passes, PySpark, and Numba's own set-up took as long in this process as in the daemon that
`prefork` forks. Now this process loads them while the JVM starts, and the daemon inherits them. The daemon
itself calls this too: elsewhere, or without the shortcut, it has nothing to inherit.
"""

import importlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

from kdissect.jit import kernel_cache
from kdissect.memory import loading
from kdissect.startup_switch import Shortcut, is_on

MODULES = (
    "py4j.protocol",  # first: to ask for a context between modules needs it whole
    "kdissect.spark.jobs",
    "kdissect.spark.rdd_backend",
    "kdissect.spark.startup.warmup",
    "pyspark.worker",
    "pyspark.sql.types",
    "pyspark.sql.conversion",
    "pyspark.sql.pandas.serializers",
    "pyspark.sql.pandas.types",
)


def load(between: Callable[[], object] | None = None) -> None:
    """Load what workers need, compiled kernels excepted. Call `between` whenever a module is looked for."""
    with loading(), _called_by_imports(between) if between else nullcontext():
        for name in MODULES:
            importlib.import_module(name)
        set_up_numba()
    if between:
        between()


class _Listener:
    """A finder of modules that knows none, and calls a function when it is asked for one.

    It is not called again by imports of the function itself.
    """

    def __init__(self, function: Callable[[], object]) -> None:
        self._function, self._is_called = function, False

    def find_spec(self, _name: str, _path: object, _target: object = None) -> None:
        """Call the function. Raise what it raises."""
        if not self._is_called:
            self._is_called = True
            try:
                self._function()
            finally:
                self._is_called = False


@contextmanager
def _called_by_imports(function: Callable[[], object]) -> Iterator[None]:
    listener = _Listener(function)
    sys.meta_path.insert(0, listener)
    try:
        yield
    finally:
        sys.meta_path.remove(listener)


def set_up_numba() -> None:
    """Make Numba ready to load kernels, unless they run uncompiled.

    Numba does this when the first kernel is called: it prepares what counts references to arrays, and imports
    what its compiler knows of Python and NumPy, unless that waits (`jit.late_registries`).
    """
    if os.environ.get(kernel_cache.SWITCH) == "0":
        return
    import numpy.ma  # noqa: F401 - Numba asks whether an array is masked, so each process would load it
    from numba.core.registry import cpu_target
    from numba.core.runtime.nrt import rtsys

    if is_on(Shortcut.LATE_REGISTRIES):
        rtsys.initialize(cpu_target.target_context)
    else:
        cpu_target.target_context.refresh()
