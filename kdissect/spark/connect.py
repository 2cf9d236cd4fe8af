"""A session of a Spark Connect server.

It is the engine of a run whose master is `sc://…`, as `session.Engine` is for others.

The session carries the package to the executors, and the server forgets it when the session ends.
"""

import os
import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from kdissect import limits
from kdissect.errors import UserError
from kdissect.package_archive import pack
from kdissect.spark.scratch_engine import ScratchEngine
from kdissect.spark.session import Engine
from kdissect.spark.spark_settings import QUIET_SETTINGS, SparkSettings
from kdissect.spark.startup.block_unused import allow_all

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kdissect.spark.reading_stop import ReadingStop

SCHEME = "sc://"
REACHED_SECONDS = 15.0
MOST_RETRIES, RETRY_MS = 8, 8_000
"""How often a server that does not answer is tried again, and the longest pause.

That is half a minute in all. PySpark would try for ten minutes.
"""

OLDEST = (4, 1)  # the first Spark that puts rows into the partition that they name

SESSION_SETTINGS = (
    "spark.sql.session.timeZone",
    "spark.sql.execution.arrow.maxRecordsPerBatch",
    "spark.sql.execution.arrow.maxBytesPerBatch",
)
"""The settings that a session may change; all others belong to the server."""


class ConnectError(UserError):
    """There is no session with a Spark Connect server; the message is one sentence."""


class ConnectEngine(ScratchEngine):
    """A session of a Spark Connect server. Closing it ends the session, not the server.

    The server keeps its own log. Its operators are trusted with the secrets of a key log, which go
    through it. Executors cannot read files of this machine, so nothing is scanned ahead.
    """

    def __init__(self, settings: SparkSettings) -> None:
        super().__init__(settings)
        self._session: SparkSession | None = None

    @classmethod
    def start(cls, settings: SparkSettings) -> Self:
        """Return an engine. Raise ConnectError if packages for Spark Connect are missing."""
        _session_module()
        return cls(settings)

    def build(self) -> None:
        """Connect to the server and send it the package. Raise ConnectError."""
        if self._session is not None:
            return
        self._session = _new_session(self.settings.master)
        for name in SESSION_SETTINGS:
            self._session.conf.set(name, QUIET_SETTINGS[name])
        send_package(self._session)
        if limits.LIMITS_VARIABLE in os.environ:
            self.settings.notice(
                f"{limits.LIMITS_VARIABLE} does not reach the executors of a Spark Connect "
                "server; their own value counts"
            )

    def is_up(self) -> bool:
        """Return whether there is a session."""
        return self._session is not None

    def reading_stop(self, folder: Path) -> "ReadingStop | None":  # noqa: ARG002 - as that of `Engine`
        """Return what ends the reading of a run, by numbers that this process serves; None if it cannot."""
        from kdissect.spark.reading_stop import ReadingStop
        from kdissect.spark.served_numbers import NumberServer, address_towards

        here = address_towards(*_endpoint(self.settings.master))
        if not here:
            return None
        server = NumberServer(lambda: (here, here))
        self.afterwards.callback(server.end)
        return ReadingStop.of(lambda _name: server.new_log())

    def context(self) -> "SparkSession":
        """Return what jobs run on, which is the session."""
        return self.session()

    def session(self) -> "SparkSession":
        """Return the session."""
        self.build()
        assert self._session is not None
        return self._session

    def rest(self, needs_memory: bool = False) -> None:  # noqa: ARG002 - as that of `Engine`
        """End the session."""
        if self._session is not None:
            self._session.stop()
            self._session = None


def _endpoint(url: str) -> tuple[str, int]:
    """Return host and port of a server."""
    from pyspark.sql.connect.client import DefaultChannelBuilder

    host, _, port = DefaultChannelBuilder(url).endpoint.rpartition(":")
    return host.strip("[]"), int(port)


def engine_for(settings: SparkSettings) -> Engine | ConnectEngine:
    """Return the engine for the master of the settings, started."""
    if settings.master.startswith(SCHEME):
        return ConnectEngine.start(settings)
    return Engine.start(settings)


def send_package(session: "SparkSession") -> None:
    """Send the package to the executors of a session."""
    with tempfile.TemporaryDirectory(prefix="kdissect-") as folder:
        session.addArtifacts(str(pack(Path(folder))), pyfile=True)


def _session_module() -> Any:
    """Return the module of PySpark with sessions, which needs pandas. Raise ConnectError."""
    allow_all()
    # By default gRPC kills a child of this process that forks, as the prefork daemon of a local Spark does.
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", FutureWarning
        )  # about a pandas that is newer than PySpark, and not used
        try:
            from pyspark.sql.connect import session
        except ImportError:
            raise ConnectError(
                "Spark Connect needs packages that are not installed: pip install 'kdissect[connect]'"
            ) from None
    return session


def _new_session(url: str) -> Any:
    """Return a new session. Raise ConnectError."""
    import grpc
    from pyspark.errors import PySparkException
    from pyspark.sql.connect.client import DefaultChannelBuilder
    from pyspark.sql.connect.client.retries import DefaultPolicy

    place = url.partition(";")[0].rstrip("/")  # the rest may hold a token
    try:
        builder = DefaultChannelBuilder(url)
    except (PySparkException, ValueError):
        raise ConnectError(
            f"{place} is not the address of a Spark Connect server; example: sc://host:15002"
        ) from None
    with builder.toChannel() as channel:
        try:
            grpc.channel_ready_future(channel).result(timeout=REACHED_SECONDS)
        except grpc.FutureTimeoutError:
            raise ConnectError(f"no Spark Connect server answers at {place}") from None
    session = _session_module().SparkSession.builder.channelBuilder(builder).create()
    session.client.set_retry_policies([DefaultPolicy(max_retries=MOST_RETRIES, max_backoff=RETRY_MS)])
    if tuple(map(int, session.version.split(".")[:2])) < OLDEST:
        raise ConnectError(
            f"{place} runs Spark {session.version}: {OLDEST[0]}.{OLDEST[1]} or newer is needed"
        )
    return session
