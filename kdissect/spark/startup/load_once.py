"""Modules that both this process and Spark's Python workers need, loaded once before the daemon is forked.

Modules of both passes, PySpark, and Numba's own set-up took as long in this process as in the daemon that
`prefork` forks. Now this process loads them while the JVM starts, and the daemon inherits them. The daemon
itself calls this too: elsewhere, or without the shortcut, it has nothing to inherit.
"""

import importlib
import os
from collections.abc import Callable

from kdissect.jit import kernel_cache
from kdissect.memory import loading
from kdissect.startup_switch import Shortcut, is_on

MODULES = (
    "kdissect.spark.jobs",
    "kdissect.spark.rdd_backend",
    "kdissect.spark.startup.warmup",
    "pyspark.worker",
    "pyspark.sql.types",
    "pyspark.sql.conversion",
    "pyspark.sql.pandas.serializers",
    "pyspark.sql.pandas.types",
)


def load(between: Callable[[], object] = lambda: None) -> None:
    """Load what workers need, compiled kernels excepted. Call `between` after each module."""
    with loading():
        for name in MODULES:
            importlib.import_module(name)
            between()
        set_up_numba()
        between()


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
