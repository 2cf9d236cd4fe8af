"""Spark SQL over the public tables: views, one query, and what is wrong with a query in one sentence.

A wrong query raises ValueError: one that cannot be parsed before anything is dissected, one that names what is not there as
soon as the tables are.
"""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kdissect.spark.backend import backend_of, is_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def check_syntax(session: "SparkSession", query: str) -> None:
    """Raise ValueError if the query is no SQL."""
    from pyspark.errors import AnalysisException, ParseException

    try:
        if is_connect(session):
            session.sql(f"EXPLAIN {query}")
        else:
            session._jsparkSession.sessionState().sqlParser().parsePlan(query)  # noqa: SLF001 - nothing public parses alone
    except ParseException as error:
        raise ValueError(_sentence(error)) from None
    except AnalysisException:
        pass  # tables that are yet to come


def run_query(session: "SparkSession", tables: "Mapping[str, DataFrame]", query: str) -> "DataFrame":
    """Give the answer, not yet computed; raise ValueError if the query does not fit the tables."""
    from pyspark.errors import AnalysisException, ParseException

    # Few rows are left after an aggregation: as many tasks as there are cores do, not Spark's 200.
    session.conf.set("spark.sql.shuffle.partitions", backend_of(session).cores)
    for name, frame in tables.items():
        frame.createOrReplaceTempView(name)
    try:
        return session.sql(query)
    except (AnalysisException, ParseException) as error:
        raise ValueError(_sentence(error)) from None


def _sentence(error: Exception) -> str:
    """Give the first sentences of what Spark says, without its codes, the query and the plan."""
    text = str(error).split("\n\n")[0].split("\n== SQL")[0].split(";\n")[0]
    text = re.sub(r"^\[[\w.]+\] ", "", text.strip())
    text = re.sub(r"\s*SQLSTATE: \w+|; line \d+ pos \d+", "", text)
    return f"wrong SQL: {' '.join(text.split()).removesuffix('.')}"
