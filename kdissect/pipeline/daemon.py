"""What Spark starts to make Python workers: loads all that a worker needs once, then forks one worker after another.

Spark's own daemon imports nothing, so that every worker imports NumPy, PyArrow and Numba again. None of them has running
threads after its import alone, which is what forking asks for.
"""

import importlib

PRELOADED = (
    "numpy",
    "pyarrow",
    "pyarrow.compute",
    "pyarrow.ipc",
    "pyspark.worker",
    "pyspark.sql.types",
    "pyspark.sql.conversion",
    "pyspark.sql.pandas.serializers",
    "pyspark.sql.pandas.types",
    "kdissect.pipeline.steps",
)


def main() -> None:
    """Load, then serve."""
    for name in PRELOADED:
        importlib.import_module(name)
    from pyspark import daemon

    daemon.manager()


if __name__ == "__main__":
    main()
