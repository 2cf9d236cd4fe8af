"""Which backend carries the rows of a job: RDDs, or DataFrames for a session of Spark Connect.

A backend is imported when it is chosen, since PySpark's parts take time to load.
"""

from typing import Any

from kdissect.spark.backend import Backend, is_connect
from kdissect.spark.in_process_backend import InProcessBackend


def backend_of(spark: Any) -> Backend:
    """Return the backend for a Spark context or a session of any kind; a backend is its own."""
    if isinstance(spark, InProcessBackend):
        return spark
    if is_connect(spark):
        from kdissect.spark.dataframe_backend import DataFrameBackend

        return DataFrameBackend(spark)
    from kdissect.spark.rdd_backend import RddBackend

    return RddBackend(getattr(spark, "sparkContext", spark))
