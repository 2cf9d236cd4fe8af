"""Spark, starting in the background while the captures are looked over.

`Engine.start` returns at once: a JVM is coming up. `Engine.build`, called when this process has loaded what it needs itself,
forks the standby for Python workers (see `standby`) and lets a thread build the Spark context; `Engine.context` waits for it.
Locally everything stays on the loopback interface and in one temporary directory, which goes away with the engine.
"""

import os
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from kdissect import limits
from kdissect.files import ScratchDirectory, cache_home, processor_count
from kdissect.package_archive import ARCHIVE, pack
from kdissect.spark.failures import disk_full_explained
from kdissect.spark.startup.class_data_sharing import ArchiveUse, ClassArchive
from kdissect.spark.startup.java import find_java
from kdissect.spark.startup.jvm import (
    JavaEndedError,
    JvmGateway,
    JvmLaunch,
    spark_jars,
)
from kdissect.spark.startup.prefork import (
    SOCKET,
    PreforkedDaemon,
    can_prefork,
)

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

LOCAL_HEAP = "512m"
LOCAL_MASTER = "local[*]"

QUIET_SETTINGS = {
    "spark.app.name": "kdissect",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.structuredLogging.enabled": "false",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.adaptive.enabled": "false",  # the plan is fixed, one shuffle with a known number of partitions
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(32 << 20),
    "spark.sql.execution.pythonUDF.arrow.enabled": "false",
    "spark.python.worker.reuse": "true",
    "spark.python.daemon.module": "kdissect.spark.startup.worker_daemon",
}

LOCAL_SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # Spark compiles the few rows' plumbing of a plan with a Java compiler of its own: dearer here than interpreting it.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.shuffle.compress": "true",
    "spark.io.compression.codec": "lz4",
    "spark.shuffle.sort.bypassMergeThreshold": "64",
    "spark.memory.fraction": "0.5",
    "spark.cleaner.referenceTracking": "false",
    "spark.task.maxFailures": "1",
    "spark.driver.maxResultSize": "0",
}


EXECUTOR_PATH = "spark.executorEnv.PYTHONPATH"  # what Spark is given to send lies where executors work

YARN_HADOOP_SETTINGS = ("spark.executorEnv.HADOOP_CONF_DIR", "__spark_conf__/__hadoop_conf__")
"""Where Spark unpacks the driver's Hadoop settings in a container: what reads hdfs:// there needs them too."""


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """How to run Spark. `confs` are set over everything else; `notice` is told one line now and then."""

    master: str = LOCAL_MASTER
    confs: Mapping[str, str] = field(default_factory=dict)
    cache: Path = field(default_factory=cache_home)
    notice: Callable[[str], None] = lambda _line: None

    @property
    def local(self) -> bool:
        """Whether the work is done on this machine, within the process that is started here."""
        return self.master == "local" or self.master.startswith("local[")

    @property
    def cores(self) -> int:
        """On how many cores a local run works."""
        stated = self.master.partition("[")[2].partition(",")[0].rstrip("]")
        if stated == "*":
            return processor_count()
        return int(stated) if stated.isdecimal() else 1

    def spark_confs(self) -> dict[str, str]:
        """Give Spark's settings."""
        return {
            "spark.master": self.master,
            **QUIET_SETTINGS,
            **(LOCAL_SETTINGS if self.local else {}),
            **self.confs,
        }


class Engine:
    """One Spark for one run. A context manager; closing it ends everything that it started."""

    def __init__(self, settings: SparkSettings) -> None:
        self.settings = settings
        self._scratch = ScratchDirectory()
        self.afterwards = ExitStack()  # what is to be undone when Spark has ended
        self.home = self._scratch.path
        self._archive: ClassArchive | None = None
        self._gateway: JvmGateway | None = None
        self._standby: PreforkedDaemon | None = None
        self._context: SparkContext | None = None
        self._failure: BaseException | None = None
        self._building = threading.Thread(target=self._bring_up, name="spark-start", daemon=True)

    @classmethod
    def start(cls, settings: SparkSettings) -> Self:
        """Start a JVM. Raises JavaMissing and DiskFull at once; what goes wrong later is raised by `context`."""
        java = find_java()
        with disk_full_explained():
            engine = cls(settings)
            try:
                launch = JvmLaunch(java, engine.home, LOCAL_HEAP, settings.local, settings.spark_confs())
                if settings.local:
                    engine._archive = ClassArchive(settings.cache, java, spark_jars(), launch.options())
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
        """A directory that lasts as long as the engine, for spooled captures."""
        return self.home

    @property
    def log(self) -> Path:
        """What the JVM prints."""
        return self.home / "java.log"

    def build(self) -> None:
        """Go on building Spark in the background. To be called before other threads are started."""
        if self._building.ident is not None:
            return
        if self.settings.local and can_prefork(self.home / SOCKET):
            with disk_full_explained():
                self._standby = PreforkedDaemon(self.home / SOCKET)
        self._building.start()

    def is_up(self) -> bool:
        """Say whether `context` would not wait."""
        return not self._building.is_alive()

    def context(self) -> "SparkContext":
        """Wait until Spark is there and give its context; raise what kept it from starting."""
        self.build()
        self._building.join()
        if self._failure is not None:
            raise self._failure
        assert self._context is not None
        return self._context

    def session(self) -> "SparkSession":
        """Give the SQL session of the context, which costs a second more."""
        from pyspark.sql import SparkSession

        return SparkSession(self.context())

    def rest(self) -> None:
        """End Spark's processes now that their work is done: what comes after may need the memory that they hold."""
        self._let_go(finished=True)

    def close(self, finished: bool = False) -> None:
        """End everything. A run that has `finished` its job, the first of its kind, keeps the JVM's classes for later runs."""
        try:
            self._let_go(finished)
        finally:
            if self._standby:
                self._standby.end()
            if self._archive:
                self._archive.release()
            self._scratch.end()
            self.afterwards.close()

    @property
    def may_be_helped(self) -> bool:
        """Whether work may be done for Spark while it starts. Not when its classes are recorded: later runs want those of all stages."""
        return self.settings.local and not self._recording

    @property
    def _recording(self) -> bool:
        return self._archive is not None and self._archive.use is ArchiveUse.RECORD

    @property
    def _records(self) -> bool:
        """Whether this run's JVM keeps its classes for later ones."""
        return self._recording and self._context is not None

    def _forget_context(self) -> None:
        if self._context is not None:
            if not self.settings.local:
                self._context.stop()
            _detach_pyspark(self._context)
            self._context = None

    def _let_go(self, finished: bool) -> None:
        """End Spark, if it still is; a JVM that has recorded its classes goes on in the background until they are kept."""
        keeps = finished and self._records
        self._forget_context()
        if self._gateway is None:
            return
        if keeps and self._archive:
            self.settings.notice(
                f"first run: keeping Spark's classes in {self._archive.path.parent} for faster starts, in the background"
            )
            self._gateway.end()
            self._archive.keep_behind(self._gateway.process.pid)
        else:
            self._gateway.kill()
        self._gateway = None

    def _bring_up(self) -> None:
        try:
            self._context = self._build_context(self._connect())
        except BaseException as error:  # noqa: BLE001 - handed to whoever asks for the session
            self._failure = error

    def _connect(self) -> Any:
        """Give the Py4J gateway of the JVM; when the JVM breaks down, perhaps over the class archive, once more without it."""
        import pyspark.java_gateway as py4j

        assert self._gateway is not None
        try:
            port, secret = self._gateway.address()
        except JavaEndedError:
            if self._archive is None or self._archive.use is ArchiveUse.NOTHING:
                raise
            self._archive.discard()
            self._gateway = JvmGateway(self._gateway.launch, None)
            port, secret = self._gateway.address()
        os.environ.update(PYSPARK_GATEWAY_PORT=str(port), PYSPARK_GATEWAY_SECRET=secret)
        try:
            return py4j.launch_gateway()  # type: ignore[no-untyped-call]
        finally:
            del os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"]

    def _build_context(self, gateway: Any) -> "SparkContext":
        from pyspark import SparkConf, SparkContext

        if self.settings.local:
            os.environ["PYSPARK_PYTHON"] = sys.executable
        confs = self.settings.spark_confs()
        if self.settings.local:
            confs |= {
                "spark.local.dir": str(self.home / "tmp"),
                "spark.sql.warehouse.dir": str(self.home / "warehouse"),
            }
        conf = SparkConf(loadDefaults=not self.settings.local, _jvm=gateway.jvm)
        for name, value in confs.items():
            conf.set(name, value)
        if not self.settings.local:
            path = conf.get(EXECUTOR_PATH)
            conf.set(EXECUTOR_PATH, os.pathsep.join(filter(None, [ARCHIVE, path])))
            if self.settings.master == "yarn":
                conf.setIfMissing(*YARN_HADOOP_SETTINGS)
            if limits.LIMITS_VARIABLE in os.environ:
                conf.set(f"spark.executorEnv.{limits.LIMITS_VARIABLE}", os.environ[limits.LIMITS_VARIABLE])
            os.environ.setdefault("PYSPARK_PYTHON", conf.get("spark.pyspark.python") or "python3")
        context = SparkContext(gateway=gateway, conf=conf)
        if not self.settings.local:
            context.addPyFile(str(pack(self.home)))
        return context


def _detach_pyspark(context: "SparkContext") -> None:
    """Make PySpark forget a JVM that is about to end, and not print a traceback when its connection is cut."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    server: Any = context._accumulatorServer
    if server is not None:
        server.handle_error = lambda *_connection: None
    known: Any = SparkContext
    known._active_spark_context = known._gateway = known._jvm = None
    SparkSession._instantiatedSession = None
