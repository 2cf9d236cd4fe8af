"""Spark's parser in a JVM of this machine that does nothing else, for sessions whose JVM is far away.

A session of Spark Connect has no JVM here, and its server would run a command while it looks at it. So a
query for such a server is parsed here first, by the parser of the PySpark that is installed. It takes queries
only: a command is a syntax error.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kdissect.files import ScratchDirectory
from kdissect.spark.startup.java import find_java
from kdissect.spark.startup.jvm import JvmGateway, JvmLaunch

HEAP = "256m"


@contextmanager
def parsed_here(query: str) -> Iterator[tuple[Any, Any]]:
    """Return a JVM and the logical plan of a query in it.

    Raise ValueError with the message of Spark if the query is not SQL, JavaMissingError without Java, and
    GatewayError if the JVM does not start.
    """
    from py4j.java_gateway import GatewayParameters, JavaGateway
    from py4j.protocol import Py4JJavaError

    java = find_java()
    with ScratchDirectory() as home:
        process = JvmGateway(JvmLaunch(java, home, HEAP), None)
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
