"""The Spark context, which the JVM makes while this process still loads modules.

PySpark asks for a context when it is loaded, and no thread may run before the daemon of the workers is forked
(see `prefork`). The JVM listens 0.3 s before that. So this process sends what PySpark would send as soon as
the JVM listens, between two modules, and waits for no answer. `EarlyContext.take` reads the answers later.

The messages are those of Py4J's protocol: lines of text, the last of which is an `e`. Spark takes its
settings from Java's system properties, as it does when spark-submit starts it.
"""

import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

from kdissect.spark.startup.lean_context import LOOPBACK

if TYPE_CHECKING:
    from pyspark import SparkConf

CONTEXT_CLASS = "org.apache.spark.api.java.JavaSparkContext"
PYSPARK_SETTINGS = {
    "spark.serializer.objectStreamReset": "100",
    "spark.sql.artifact.isolation.enabled": "false",
}
"""Settings that PySpark 4 adds to those of a context. Another version adds its own to one that exists."""


class EarlyContext:
    """A context that the JVM was asked for."""

    def __init__(
        self,
        connection: socket.socket,  # noqa: TID251 - to our JVM
        questions: int,
        settings: Mapping[str, str],
    ) -> None:
        self._connection, self._questions, self._settings = connection, questions, settings

    @classmethod
    def ask(cls, port: int, secret: str, settings: Mapping[str, str]) -> Self | None:
        """Ask the JVM at a port of the loopback interface for a context with these settings of Spark.

        Return None if it does not listen any more.
        """
        properties = PYSPARK_SETTINGS | dict(settings)
        questions = [_authentication(secret), *(_property(*pair) for pair in properties.items()), _context()]
        try:
            connection = socket.create_connection((LOOPBACK, port))  # noqa: TID251 - to our JVM
        except OSError:
            return None
        try:
            connection.sendall("".join(questions).encode())
        except OSError:
            connection.close()
            return None
        return cls(connection, len(questions), properties)

    def take(self, gateway: Any) -> tuple[Any, "SparkConf"]:
        """Wait for the context. Return it, as an object of the gateway, and its settings.

        Raise what Spark raised, or ConnectionError if the JVM ended.
        """
        from py4j.protocol import get_return_value

        with self._connection, self._connection.makefile(encoding="utf-8") as answers:
            lines = [answers.readline() for _ in range(self._questions)]
        if not lines[-1].endswith("\n"):
            raise ConnectionResetError("Java ended while it made the Spark context")
        client = gateway._gateway_client  # noqa: SLF001 - as PySpark takes it
        for line in lines:
            made = get_return_value(line[1:-1], client, CONTEXT_CLASS, "<init>")
        return made, known_conf(self._settings, made.sc().conf())

    def close(self) -> None:
        """Leave the context to the JVM, which ends soon."""
        self._connection.close()


def known_conf(settings: Mapping[str, str], jconf: Any) -> "SparkConf":
    """Return the settings of a context that exists, for PySpark.

    PySpark asks Java for each name and each value of all settings, which took 180 messages. It gets these.
    """
    from pyspark import SparkConf

    class KnownConf(SparkConf):
        """Settings of Spark that need no question."""

        def getAll(self) -> list[tuple[str, str]]:  # noqa: N802 - the name is Spark's
            """Return names and values."""
            return list(settings.items())

    return KnownConf(_jconf=jconf)


def _authentication(secret: str) -> str:
    return f"A\n{_escaped(secret)}\n"


def _property(name: str, value: str) -> str:
    return f"c\nz:java.lang.System\nsetProperty\ns{_escaped(name)}\ns{_escaped(value)}\ne\n"


def _context() -> str:
    return f"i\n{CONTEXT_CLASS}\ne\n"


def _escaped(text: str) -> str:
    """Return text as Py4J writes it on one line."""
    from py4j.protocol import escape_new_line

    return str(escape_new_line(text))
