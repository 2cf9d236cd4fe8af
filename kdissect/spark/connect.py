"""A session of a Spark Connect server: for a run that is given `sc://…` what `session.Engine` is for any other.

The package goes along with the session, and with the session the server forgets it.
"""

import os
import tempfile
import warnings
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from kdissect import limits
from kdissect.errors import UserError
from kdissect.files import ScratchDirectory
from kdissect.package_archive import pack
from kdissect.spark.session import (
    QUIET_SETTINGS,
    Engine,
    SparkSettings,
)
from kdissect.spark.startup.block_pandas import allow_pandas

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEME = "sc://"
REACHED_SECONDS = 15.0
MOST_RETRIES, RETRY_MS = 8, 8_000
"""How often, and how long apart at most, a server is asked again that does not answer: half a minute, not PySpark's ten."""

OLDEST = (4, 1)  # of Spark: the first to put rows into the partition that they name

SESSION_SETTINGS = (
    "spark.sql.session.timeZone",
    "spark.sql.execution.arrow.maxRecordsPerBatch",
    "spark.sql.execution.arrow.maxBytesPerBatch",
)
"""What a session may set by itself; the others are the server's."""


class ConnectError(UserError):
    """There is no session of a Spark Connect server to be had; the message is one sentence."""


class ConnectEngine:
    """A context manager; closing it ends the session, not the server."""

    log: Path | None = None  # the server keeps its own
    may_be_helped = False  # executors cannot read what would be done here

    def __init__(self, settings: SparkSettings) -> None:
        self.settings = settings
        self._scratch = ScratchDirectory()
        self.afterwards = ExitStack()
        self._session: SparkSession | None = None

    @classmethod
    def start(cls, settings: SparkSettings) -> Self:
        """Take what it needs of PySpark; raise NoConnect if that lacks packages."""
        _session_module()
        return cls(settings)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.rest()
        self._scratch.end()
        self.afterwards.close()

    @property
    def temporary(self) -> Path:
        """A directory that lasts as long as this."""
        return self._scratch.path

    def build(self) -> None:
        """Reach the server, and send it the package. Raises NoConnect."""
        if self._session is not None:
            return
        self._session = _new_session(self.settings.master)
        for name in SESSION_SETTINGS:
            self._session.conf.set(name, QUIET_SETTINGS[name])
        send_package(self._session)
        if limits.LIMITS_VARIABLE in os.environ:
            self.settings.notice(
                f"{limits.LIMITS_VARIABLE} does not reach the executors of a Spark Connect server: it is theirs that counts"
            )

    def is_up(self) -> bool:
        """Say whether the session is there."""
        return self._session is not None

    def context(self) -> "SparkSession":
        """Give what jobs run on, which is the session."""
        return self.session()

    def session(self) -> "SparkSession":
        """Give the session."""
        self.build()
        assert self._session is not None
        return self._session

    def rest(self) -> None:
        """End the session."""
        if self._session is not None:
            self._session.stop()
            self._session = None


def engine_for(settings: SparkSettings) -> Engine | ConnectEngine:
    """Start what the master asks for."""
    if settings.master.startswith(SCHEME):
        return ConnectEngine.start(settings)
    return Engine.start(settings)


def send_package(session: "SparkSession") -> None:
    """Send the package to the executors of a session."""
    with tempfile.TemporaryDirectory(prefix="kdissect-") as folder:
        session.addArtifacts(str(pack(Path(folder))), pyfile=True)


def _session_module() -> Any:
    """Give PySpark's module of sessions, which cannot do without pandas."""
    allow_pandas()
    # By itself gRPC lets no child of this process fork another: it dies (the standby of a local Spark does that).
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of a pandas newer than PySpark: it is not used
        try:
            from pyspark.sql.connect import session
        except ImportError:
            raise ConnectError(
                "Spark Connect needs packages that are not installed: pip install 'kdissect[connect]'"
            ) from None
    return session


def _new_session(url: str) -> Any:
    """Give a new session."""
    import grpc
    from pyspark.errors import PySparkException
    from pyspark.sql.connect.client import DefaultChannelBuilder
    from pyspark.sql.connect.client.retries import DefaultPolicy

    place = url.partition(";")[0].rstrip("/")  # what comes behind may be a token
    try:
        builder = DefaultChannelBuilder(url)
    except (PySparkException, ValueError):
        raise ConnectError(f"{place} is no address of a Spark Connect server: sc://host:15002 is") from None
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
