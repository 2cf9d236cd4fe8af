"""Spark SQL over the public tables: views, one query, and one sentence for a wrong query.

A wrong query raises ValueError: a syntax error, or something that a query may not do, before anything is
dissected, an unknown name when the tables exist.

A session of Spark Connect has no JVM here, and its server would run a command while it looks at it. So a
query for such a server is parsed first in a JVM of this machine, by the parser of the PySpark that is
installed. It takes queries only: a command is a syntax error.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from kdissect.files import ScratchDirectory
from kdissect.spark.backend import is_connect
from kdissect.spark.backend_choice import backend_of
from kdissect.spark.select_check import (
    SUBSTITUTION,
    RestrictedQueryError,
    tables_of_plan,
    tables_read,
)
from kdissect.spark.startup.java import find_java
from kdissect.spark.startup.jvm import JvmGateway, JvmLaunch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

HEAP = "256m"
"""The most memory of the JVM that only parses."""

COMPILED_FROM = 64 << 20
"""Bytes of packets from which on a query is compiled.

To compile one takes 0.2 s, and to interpret it 1.3 s for the 360 MiB of a million exchanges: a sum by API
took 5.2 s instead of 6.1 in all, and 3.5 instead of 3.3 over a small capture.
"""

COMPILING = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
"""Settings with which Spark compiles plans, as it does unless it was told not to."""


def check_syntax(session: "SparkSession", query: str) -> None:
    """Raise ValueError if the query is not SQL."""
    from pyspark.errors import AnalysisException, ParseException

    try:
        if is_connect(session):
            session.sql(f"EXPLAIN {query}")
        else:
            # No public function only parses.
            session._jsparkSession.sessionState().sqlParser().parsePlan(query)  # noqa: SLF001
    except ParseException as error:
        raise ValueError(_sentence(error)) from None
    except AnalysisException:
        pass  # the tables do not exist yet


def check_query(session: "SparkSession", query: str, tables: Collection[str]) -> set[str]:
    """Return which of the tables a query reads, which may read nothing else. Raise ValueError."""
    from pyspark.errors import ParseException

    if is_connect(session):
        return _check_here(session, query, tables)
    try:
        return tables_read(session, query, tables)
    except ParseException as error:
        raise ValueError(_sentence(error)) from None


def _check_here(session: "SparkSession", query: str, tables: Collection[str]) -> set[str]:
    """Check a query for a server, which would run a command while it looks at it. Raise ValueError."""
    session.conf.set(SUBSTITUTION, "false")
    try:
        with parsed_here(query) as (jvm, plan):
            return tables_of_plan(jvm, plan, tables)
    except RestrictedQueryError:
        raise
    except ValueError as error:
        raise ValueError(_sentence(error)) from None


def check_columns(session: "SparkSession", query: str, schemas: Mapping[str, pa.Schema]) -> None:
    """Raise ValueError if a query does not fit these tables. It is resolved against empty ones."""
    empty = {name: _empty(session, from_arrow_schema(schema)) for name, schema in schemas.items()}
    run_query(session, empty, query)


def _empty(session: "SparkSession", schema: "StructType") -> "DataFrame":
    """Return a table without rows. The JVM makes it, where there is one: an RDD takes half a second."""
    if is_connect(session):
        return session.createDataFrame([], schema)

    from pyspark.sql import DataFrame

    java: Any = session
    of_java = java._jsparkSession.parseDataType(schema.json())  # noqa: SLF001 - nothing public makes it there
    rows = java._jvm.java.util.ArrayList()  # noqa: SLF001
    return DataFrame(java._jsparkSession.createDataFrame(rows, of_java), session)  # noqa: SLF001


def run_query(session: "SparkSession", tables: "Mapping[str, DataFrame]", query: str) -> "DataFrame":
    """Return the result, not yet computed. Raise ValueError if the query does not fit the tables."""
    from pyspark.errors import AnalysisException, ParseException

    # Few rows remain after an aggregation, so one task per core is enough; the default is 200.
    session.conf.set("spark.sql.shuffle.partitions", backend_of(session).cores)
    for name, frame in tables.items():
        frame.createOrReplaceTempView(name)
    try:
        return session.sql(query)
    except (AnalysisException, ParseException) as error:
        raise ValueError(_sentence(error)) from None


def compile_query(session: "SparkSession", captured_bytes: int) -> None:
    """Have Spark compile queries of a session from now on, if they read tables of so many bytes."""
    if captured_bytes >= COMPILED_FROM and not is_connect(session):
        for name, value in COMPILING.items():
            session.conf.set(name, value)


def _sentence(error: Exception) -> str:
    """Return the first sentences of an error of Spark, without its codes, the query and the plan."""
    text = str(error).split("\n\n")[0].split("\n== SQL")[0].split(";\n")[0]
    text = re.sub(r"^\[[\w.]+\] ", "", text.strip())
    text = re.sub(r"\s*SQLSTATE: \w+|; line \d+ pos \d+", "", text)
    return f"wrong SQL: {' '.join(text.split()).removesuffix('.')}"


@contextmanager
def parsed_here(query: str) -> Iterator[tuple[Any, Any]]:
    """Return a JVM and the logical plan of a query in it.

    Raise ValueError with the message of Spark if the query is not SQL, JavaMissingError without Java, and
    GatewayError if the JVM does not start.
    """
    from py4j.java_gateway import GatewayParameters, JavaGateway
    from py4j.protocol import Py4JJavaError

    java = find_java()
    scratch = ScratchDirectory()
    with scratch as home, _errors_of_py4j():
        process = JvmGateway(JvmLaunch(java, home, HEAP, locks=(scratch.lock,)), None)
        try:
            port, secret = process.address()
            gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=secret))
            try:
                parser = gateway.jvm.org.apache.spark.sql.catalyst.parser.CatalystSqlParser()
                yield gateway.jvm, parser.parsePlan(query)
            except Py4JJavaError as error:
                raise ValueError(str(error.java_exception.getMessage())) from None
            finally:
                gateway.shutdown()  # and no object that is forgotten later is told to a JVM that has ended
        finally:
            process.kill()


@contextmanager
def _errors_of_py4j() -> Iterator[None]:
    """Have errors of a JVM raised as py4j raises them.

    A session that began earlier in this process has installed PySpark's translation of errors for all of
    py4j. It asks the JVM of that session, which may have ended, and never knows an error of another JVM.
    """
    from py4j import java_gateway, protocol

    installed = java_gateway.get_return_value
    java_gateway.get_return_value = protocol.get_return_value
    try:
        yield
    finally:
        java_gateway.get_return_value = installed
