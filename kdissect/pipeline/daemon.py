"""What Spark starts to make Python workers: loads all that a worker needs once, then forks one worker after another.

Spark's own daemon imports nothing, so that every worker would import NumPy, PyArrow and Numba and read the compiled loops
again. A rehearsal that fails is passed over: the same failure comes again in the job, where it can be told.
"""

import importlib
from contextlib import suppress

PRELOADED = (
    "pyspark.worker",
    "pyspark.sql.types",
    "pyspark.sql.conversion",
    "pyspark.sql.pandas.serializers",
    "pyspark.sql.pandas.types",
)


def main() -> None:
    """Load, then serve."""
    for name in PRELOADED:
        importlib.import_module(name)
    with suppress(Exception):
        from kdissect.pipeline.rehearsal import rehearse

        rehearse()
    from pyspark import daemon

    daemon.manager()


if __name__ == "__main__":
    main()
