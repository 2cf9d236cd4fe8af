"""Which backend carries the rows of a job."""

from kdissect.spark.backend_choice import backend_of
from kdissect.spark.dataframe_backend import DataFrameBackend
from kdissect.spark.rdd_backend import RddBackend


class Context:
    defaultParallelism = 3  # noqa: N815 - PySpark's name


class Session:
    sparkContext = Context()  # noqa: N815 - PySpark's name


class ConnectSession:
    __module__ = "pyspark.sql.connect.session"


def test_contexts_and_sessions_get_rdds_and_connect_sessions_dataframes() -> None:
    assert isinstance(backend_of(ConnectSession()), DataFrameBackend)
    for spark in (Context(), Session()):
        backend = backend_of(spark)
        assert isinstance(backend, RddBackend)
        assert backend.cores == 3
