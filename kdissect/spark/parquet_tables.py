"""Tables for SQL on this machine: workers write them as Parquet into a private directory, Spark reads that.

In comes the work of a run, out go DataFrames over its public tables, with the types that `table_jobs.tables`
gives them. Otherwise every row of every column would become an object of the JVM before a query looks at it.
From Parquet, Spark reads only the columns that the query names, in batches. An aggregation over a million
exchanges takes 2.7 s in Spark this way, and 7.2 s the other way.

Writing costs a tenth of dissecting, so all columns are written, whichever the query names.

A record may hold a megabyte, and Spark would read hundreds of them at a time. So `records` stays with
`table_jobs.tables`.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql.pandas.types import from_arrow_schema

from kdissect.spark import table_jobs
from kdissect.spark.table_writer import hadoop_path
from kdissect.tables.schemas import ROW_TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kdissect.spark.analysis_work import AnalysisWork

LARGE_ROWS = frozenset(("records",))
BATCH_ROWS = 512
"""Rows that Spark reads at a time: hostile names of 32 KiB then take 16 MiB a column."""


def parquet_tables(
    session: "SparkSession", work: "AnalysisWork", wanted: Sequence[str], folder: Path
) -> "dict[str, DataFrame]":
    """Return public tables as DataFrames over Parquet files in a new folder of this machine.

    Spark must run on this machine. The captures are dissected now, once for all tables. The files must stay
    as long as the DataFrames are used.
    """
    folder.mkdir()
    table_jobs.write_tables(session.sparkContext, work, wanted, folder)
    session.conf.set("spark.sql.parquet.columnarReaderBatchSize", BATCH_ROWS)
    return {
        table: session.read.schema(from_arrow_schema(ROW_TABLES[table])).parquet(hadoop_path(folder / table))
        for table in wanted
    }
