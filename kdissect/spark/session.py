"""Spark, which starts in the background while the captures are indexed.

`Engine.start` returns at once, while a JVM starts. `Engine.build`, called when this process has loaded what
it needs for itself, forks the daemon of the Python workers (see `startup.prefork`) and builds the Spark
context in a thread. `Engine.context` waits for that. A local engine stays on the loopback interface and in
one temporary directory, which it removes when it is closed. `start -> build -> context -> rest -> close` is
the order of calls.
"""

import os
import sys
import tempfile
import threading
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from kdissect import limits
from kdissect.files import ScratchDirectory
from kdissect.memory import ARROW_ALLOCATOR
from kdissect.package_archive import ARCHIVE, pack
from kdissect.spark.cluster_master import check_master, silence_noticed
from kdissect.spark.executor_slots import notice_missing_slots
from kdissect.spark.failures import disk_full_explained
from kdissect.spark.file_parts import SHARED_FOLDER
from kdissect.spark.spark_settings import LOCAL_HEAP, RunKind, SparkSettings
from kdissect.spark.sql_workers import end_sql_workers
from kdissect.spark.startup import load_once
from kdissect.spark.startup.class_data_sharing import ClassArchive
from kdissect.spark.startup.early_context import EarlyContext
from kdissect.spark.startup.java import check_temporary_directory, check_user_name, find_java
from kdissect.spark.startup.jvm import (
    JavaEndedError,
    JvmGateway,
    JvmLaunch,
)
from kdissect.spark.startup.lean_context import leave_out_scopes
from kdissect.spark.startup.prefork import (
    SOCKET,
    PreforkedDaemon,
    can_prefork,
    fits_socket,
)
from kdissect.startup_switch import Shortcut, is_on

if TYPE_CHECKING:
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    from kdissect.spark.reading_stop import ReadingStop
    from kdissect.streams.tls.keylog import KeyLog

SOCKET_NAME_BYTES = 48  # of the names that Spark makes: a UUID and a suffix

EXECUTOR_PATH = (
    "spark.executorEnv.PYTHONPATH"  # what the driver sends lies in the working directory of executors
)

YARN_HADOOP_SETTINGS = ("spark.executorEnv.HADOOP_CONF_DIR", "__spark_conf__/__hadoop_conf__")
"""Folder in which Spark unpacks the Hadoop settings of the driver in a container.

The readers of hdfs:// there need them too.
"""


class Engine:
    """One Spark for one run. It is a context manager, and closing it ends everything that it started."""

    def __init__(self, settings: SparkSettings) -> None:
        self.settings = settings
        self._scratch = ScratchDirectory()
        self.afterwards = ExitStack()  # undone when Spark has ended
        self.home = self._scratch.path
        self._archive: ClassArchive | None = None
        self._gateway: JvmGateway | None = None
        self._stopped: JvmGateway | None = None
        self._prefork: PreforkedDaemon | None = None
        self._early: EarlyContext | None = None
        self._context: SparkContext | None = None
        self._failure: BaseException | None = None
        self._has_run = False
        self._building = threading.Thread(target=self._build_in_thread, name="spark-start", daemon=True)

    @classmethod
    def start(cls, settings: SparkSettings) -> Self:
        """Start a JVM. Raise a UserError if it cannot start; later failures are raised by `context`.

        None is started for a master that cannot be reached.
        """
        java = find_java()
        check_user_name(os.geteuid())
        check_temporary_directory(tempfile.gettempdir())
        check_master(settings.master, settings.notice)
        with disk_full_explained():
            engine = cls(settings)
            try:
                launch = JvmLaunch(
                    java,
                    engine.home,
                    LOCAL_HEAP,
                    settings.local,
                    settings.spark_confs(),
                    queries=settings.kind is not RunKind.RDD,
                    locks=(engine._scratch.lock,),
                )
                if settings.local and is_on(Shortcut.CLASS_DATA_SHARING):
                    options = launch.options()
                    engine._archive = ClassArchive(
                        settings.cache, java, launch.jars(), options, settings.kind
                    )
                engine._gateway = JvmGateway(launch, engine._archive)
            except BaseException:
                engine.close()
                raise
        return engine

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(finished=error is None)

    @property
    def temporary(self) -> Path:
        """A directory for spooled captures, which lasts as long as the engine."""
        return self.home

    @property
    def log(self) -> Path:
        """The file of what the JVM prints."""
        return self.home / "java.log"

    def build(self) -> None:
        """Build the Spark context in the background. Call this before other threads are started."""
        if self._building.ident is not None:
            return
        if self.settings.local and is_on(Shortcut.PREFORK) and can_prefork(self.home / SOCKET):
            if is_on(Shortcut.LOAD_ONCE):
                asks = is_on(Shortcut.EARLY_CONTEXT) and is_on(Shortcut.DIRECT_JVM)
                load_once.load(between=self._ask_early if asks else None)
            with disk_full_explained():
                self._prefork = PreforkedDaemon(self.home / SOCKET)
        self._building.start()

    def is_up(self) -> bool:
        """Return whether `context` returns without waiting."""
        return not self._building.is_alive()

    def context(self) -> "SparkContext":
        """Wait for Spark and return its context. Raise what kept it from starting."""
        self.build()
        self._building.join()
        if self._failure is not None:
            raise self._failure
        assert self._context is not None
        if self.settings.local:
            leave_out_scopes(self._context)
        return self._context

    def session(self) -> "SparkSession":
        """Return the SQL session of the context, which takes another second.

        Runs of the kind RDD have none.
        """
        from pyspark.sql import SparkSession

        return SparkSession(self.context())

    def rest(self) -> None:
        """End Spark when its work is done, since what follows may need the memory that it holds.

        `close` waits for its end.
        """
        self._forget_context()
        self._forget_early()
        gateway, self._gateway = self._gateway, None  # before its end: a JVM that was ended is no failed one
        if gateway is not None:
            self._stopped = gateway
            gateway.stop()

    def close(self, finished: bool = False) -> None:
        """End everything.

        The first run of its kind that has `finished` lets Java's classes be stored for later runs.
        """
        try:
            self.rest()
            if self._stopped is not None:
                self._stopped.end()
        finally:
            if self._prefork:
                self._prefork.end()
            self._scratch.end()
            self.afterwards.close()
        if finished and self._has_run and self._archive and self._archive.make_in_background():
            self.settings.notice(
                f"first run: storing Spark's classes in {self.settings.cache} in the background, "
                "for faster starts"
            )

    @property
    def may_be_helped(self) -> bool:
        """Return whether this process may scan captures while Spark starts."""
        return self.settings.local and is_on(Shortcut.LOCAL_SCAN)

    def _forget_early(self) -> None:
        if self._early is not None:
            self._early.close()
            self._early = None

    def _forget_context(self) -> None:
        if self._context is not None:
            if not self.settings.local:
                self._context.stop()
            _detach_pyspark(self._context)
            self._context = None

    def end_sql_workers(self) -> None:
        """End Python processes that Spark SQL needed to begin a stream, when no other will begin."""
        if self._gateway is not None and self.settings.local:
            end_sql_workers(self._gateway.process.pid)

    def share_keys(self, keys: "KeyLog") -> "KeyLog":
        """Return the key log as tasks may carry it.

        A local run carries the name of a socket. A cluster gets the secrets, with a notice if everybody
        on its network can read them.
        """
        address = self.home / f"keys-{len(list(self.home.glob('keys-*')))}"
        if not len(keys):
            return keys
        if self.settings.local and fits_socket(address):
            from kdissect.spark.served_keys import KeyServer

            server = KeyServer(keys, address)
            self.afterwards.callback(server.end)
            return server.keys
        if not self.settings.local and self.context().getConf().get("spark.authenticate") != "true":
            self.settings.notice(
                "secrets of TLS sessions go to a cluster that does not authenticate (spark.authenticate): "
                "others on its network can read them"
            )
        return keys

    def reading_stop(self, folder: Path) -> "ReadingStop":
        """Return what ends the reading of a run: files in a folder, or numbers that the driver serves."""
        from kdissect.spark.reading_stop import ReadingStop

        if self.settings.local:
            return ReadingStop.new(folder)
        from kdissect.spark.served_numbers import NumberServer

        server = NumberServer(self.driver_hosts)
        self.afterwards.callback(server.end)
        return ReadingStop.of(lambda _name: server.new_log())

    def driver_hosts(self) -> tuple[str, str]:
        """Return the host name of the driver for executors, and the address that it listens at."""
        conf = self.context().getConf()
        host = conf.get("spark.driver.host") or "127.0.0.1"
        return host, conf.get("spark.driver.bindAddress") or host

    def _local_places(self) -> dict[str, str]:
        """Return where a local Spark keeps its files and sockets, all in the directory of the run.

        Sockets there replace ports of the loopback interface, unless TMPDIR is too long for their names.
        """
        places = {
            "spark.local.dir": str(self.home / "tmp"),
            SHARED_FOLDER: str(self.home / "tmp"),
            "spark.sql.warehouse.dir": str(self.home / "warehouse"),
        }
        if fits_socket(self.home / ("x" * SOCKET_NAME_BYTES)):
            places |= {
                "spark.python.unix.domain.socket.enabled": "true",
                "spark.python.unix.domain.socket.dir": str(self.home),
            }
        return places

    def _ask_early(self) -> None:
        """Ask the JVM for a context as soon as it listens."""
        if self._early is None and self._gateway and self._gateway.listens():
            self._early = EarlyContext.ask(*self._gateway.address(), self._confs())

    def _confs(self) -> dict[str, str]:
        return self.settings.spark_confs() | (self._local_places() if self.settings.local else {})

    def _build_in_thread(self) -> None:
        try:
            self._context = self._build_context(self._connect())
            self._has_run = True
        except BaseException as error:  # noqa: BLE001 - raised by `context`
            self._failure = error

    def _connect(self) -> Any:
        """Return the Py4J gateway of the JVM.

        A JVM that fails, perhaps on its class archive, is started again without it.
        """
        import pyspark.java_gateway as py4j

        gateway = self._gateway
        assert gateway is not None
        try:
            port, secret = gateway.address()
        except JavaEndedError:
            was_ended = self._gateway is None
            if was_ended or self._archive is None or not self._archive.is_mapped:
                raise
            self._archive.discard()
            self._forget_early()
            self._gateway = JvmGateway(gateway.launch, None)
            port, secret = self._gateway.address()
        os.environ.update(PYSPARK_GATEWAY_PORT=str(port), PYSPARK_GATEWAY_SECRET=secret)
        try:
            return py4j.launch_gateway()  # type: ignore[no-untyped-call]
        finally:
            del os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"]

    def _build_context(self, gateway: Any) -> "SparkContext":
        from pyspark import SparkContext

        if self.settings.local:
            os.environ["PYSPARK_PYTHON"] = sys.executable
        if self._early is not None:
            made, conf = self._early.take(gateway)
            context = SparkContext(gateway=gateway, conf=conf, jsc=made)
        else:
            conf = self._conf(gateway)
            with silence_noticed(self.settings.master, self.settings.notice):
                context = SparkContext(gateway=gateway, conf=conf)
        _ignore_strangers(context)
        if not self.settings.local:
            context.addPyFile(str(pack(self.home)))
            self.afterwards.callback(notice_missing_slots(context, self.settings.notice))
        return context

    def _conf(self, gateway: Any) -> "SparkConf":
        from pyspark import SparkConf

        conf = SparkConf(loadDefaults=not self.settings.local, _jvm=gateway.jvm)
        for name, value in self._confs().items():
            conf.set(name, value)
        if not self.settings.local:
            path = conf.get(EXECUTOR_PATH)
            conf.set(EXECUTOR_PATH, os.pathsep.join(filter(None, [ARCHIVE, path])))
            if self.settings.master == "yarn":
                conf.setIfMissing(*YARN_HADOOP_SETTINGS)
            for name, value in self.settings.secret_confs(conf.get).items():
                conf.set(name, value)
            if limits.LIMITS_VARIABLE in os.environ:
                conf.set(f"spark.executorEnv.{limits.LIMITS_VARIABLE}", os.environ[limits.LIMITS_VARIABLE])
            variable, value = ARROW_ALLOCATOR
            conf.setIfMissing(f"spark.executorEnv.{variable}", value)
            os.environ.setdefault("PYSPARK_PYTHON", conf.get("spark.pyspark.python") or "python3")
        return conf


def _ignore_strangers(context: "SparkContext") -> None:
    """Drop connections to PySpark's server of accumulators that fail, without a traceback.

    They are from a stranger, or from a JVM that ends.
    """
    server: Any = context._accumulatorServer
    server.handle_error = lambda *_connection: None


def _detach_pyspark(context: "SparkContext") -> None:
    """Make PySpark forget the JVM of a context, which is about to end. It keeps the JVM of another one."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    known: Any = SparkContext
    if known._active_spark_context not in (None, context):
        return
    known._active_spark_context = known._gateway = known._jvm = None
    SparkSession._instantiatedSession = None
