"""Spark's JVM as a child process, started without spark-submit's scripts and without the second JVM that they run.

Local Spark needs nothing of spark-submit but the class path and a few options; what it does beyond that serves clusters,
so for any other master the same JVM runs Spark's own submit class. The JVM ends by itself when its standard input closes,
that is when this process ends in whatever way.
"""

import os
import re
import struct
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from kdissect.spark.startup.class_data_sharing import ClassArchive
from kdissect.spark.startup.java import Java
from kdissect.spark.startup.prefork import ADDRESS, SOCKET

# JavaModuleOptions of Spark, less what only its machine-learning library uses (jdk.incubator.vector).
_OPENED = (
    *(
        "lang",
        "lang.invoke",
        "lang.reflect",
        "io",
        "net",
        "nio",
        "util",
        "util.concurrent",
        "util.concurrent.atomic",
    ),
)
_MODULES = (
    *(f"java.base/java.{package}" for package in _OPENED),
    *(
        f"java.base/{package}"
        for package in ("jdk.internal.ref", "sun.nio.ch", "sun.nio.cs", "sun.security.action")
    ),
    "java.base/sun.util.calendar",
    "java.security.jgss/sun.security.krb5",
)

OPTIONS = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    "-XX:TieredStopAtLevel=1",  # a short life: the optimising compiler never earns back what it costs
    "-XX:+UseSerialGC",
    "-XX:-UsePerfData",
    "-Xms192m",  # else it is a part of the machine's memory, and nothing is cleared away before that is full
    "-Xmn96m",
    "-Xss4m",
    "-Djava.awt.headless=true",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
    *(f"--add-opens={module}=ALL-UNNAMED" for module in _MODULES),
)

LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")
LOCAL_MAIN = "org.apache.spark.api.python.PythonGatewayServer"
SUBMIT_MAIN = "org.apache.spark.deploy.SparkSubmit"
START_SECONDS = 120
LOG_ROOM = 16 << 10  # bytes
MAIN_DIED = re.compile(rb'Exception in thread "main" [^\n]+\n')

_FOREIGN = ("SPARK_", "PYSPARK_")
"""Settings in the environment that belong to another Spark; a local run is the same everywhere."""


class GatewayError(Exception):
    """The JVM did not come up; the message is one sentence."""


class JavaEndedError(GatewayError):
    """… since it broke down before Spark's own program could say why."""


@dataclass(frozen=True, slots=True)
class JvmLaunch:
    """What to start: `heap` as Java writes it (768m); `confs` go to spark-submit, only when the master is not local."""

    java: Java
    home: Path
    """A directory of this run, for the JVM's log, its temporary files and the place where it says its port."""
    heap: str
    local: bool = True
    confs: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)

    @property
    def log(self) -> Path:
        """Everything the JVM prints."""
        return self.home / "java.log"

    @property
    def port_file(self) -> Path:
        """Where the JVM writes port and secret when it is ready."""
        return self.home / "gateway"

    def options(self) -> tuple[str, ...]:
        """JVM options that a class archive depends on."""
        return (*OPTIONS, f"-Xmx{self.heap}")

    def command(self, archive: ClassArchive | None) -> list[str]:
        """Give the command line."""
        temporary = self.home / "tmp"
        settings = [f"-Dlog4j2.configurationFile={LOG_SETTINGS}", f"-Djava.io.tmpdir={temporary}"]
        class_path = [*self._settings_folders(), *map(str, spark_jars())]
        main = [LOCAL_MAIN] if self.local else [SUBMIT_MAIN, *self._submit_arguments()]
        shared = archive.options if archive else ()
        return [
            str(self.java.program),
            *self.options(),
            *shared,
            *settings,
            "-cp",
            os.pathsep.join(class_path),
            *main,
        ]

    def child_environment(self) -> dict[str, str]:
        """Give the environment of the JVM, which its Python workers inherit."""
        kept = {
            name: value
            for name, value in self.environment.items()
            if not (self.local and name.startswith(_FOREIGN))
        }
        # SPARK_HOME stays unset: with it, workers import pyspark from a zip of sources and compile it at every start.
        kept.pop("SPARK_HOME", None)
        kept.pop("SPARK_REMOTE", None)  # another place than the master, and Spark refuses both
        if self.confs.get("spark.master") == "yarn":
            # What it sends to containers, jars and pyspark, it finds there only.
            kept["SPARK_HOME"] = str(spark_jars()[0].parents[1])
        package = Path(__file__).parents[3]
        if package.name not in ("site-packages", "dist-packages"):
            kept["PYTHONPATH"] = os.pathsep.join(filter(None, [str(package), kept.get("PYTHONPATH", "")]))
        return kept | {
            "_PYSPARK_DRIVER_CONN_INFO_PATH": str(self.port_file),
            "SPARK_CONNECT_MODE": "0",
            ADDRESS: str(self.home / SOCKET),
            "MALLOC_ARENA_MAX": "2",  # each that glibc adds for another thread keeps what was freed in it
            "OPENBLAS_NUM_THREADS": "1",
            "OMP_NUM_THREADS": "1",
        }

    def _settings_folders(self) -> list[str]:
        names = () if self.local else ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR")
        return [self.environment[name] for name in names if self.environment.get(name)]

    def _submit_arguments(self) -> list[str]:
        pairs = (f"{name}={value}" for name, value in self.confs.items())
        return [word for pair in pairs for word in ("--conf", pair)] + ["pyspark-shell"]


def spark_jars() -> Sequence[Path]:
    """Give the jars of the installed pyspark, without importing it."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise GatewayError("PySpark is not installed: pip install pyspark")
    return sorted((Path(spec.origin).parent / "jars").glob("*.jar"))


class JvmGateway:
    """A JVM that is starting or running."""

    def __init__(self, launch: JvmLaunch, archive: ClassArchive | None) -> None:
        self.launch, self.archive = launch, archive
        (launch.home / "tmp").mkdir(exist_ok=True)
        with launch.log.open("wb") as log:
            log.write(bytes(LOG_ROOM))  # or else a JVM that fails for want of room could not say so
            log.seek(0)
            self.process = subprocess.Popen(
                launch.command(archive),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=launch.child_environment(),
                start_new_session=True,  # Ctrl-C is for this process; the JVM is told what to do
            )

    def address(self) -> tuple[int, str]:
        """Wait for the JVM; give port and secret of its gateway. Raises GatewayFailed when there will be none."""
        deadline = time.monotonic() + START_SECONDS
        while not self.launch.port_file.exists():
            ended = self.process.poll() is not None
            # A JVM whose main thread died of what it could not write does not end: it has the gateway's thread too.
            died = MAIN_DIED.search(self.launch.log.read_bytes())
            if ended or died:
                kind = GatewayError if died else JavaEndedError
                raise kind(f"Java ended while Spark was starting: {error_line(self.launch.log)}")
            if time.monotonic() > deadline:
                raise GatewayError(f"Spark did not start within {START_SECONDS} seconds")
            time.sleep(0.005)
        said = self.launch.port_file.read_bytes()
        port, length = struct.unpack_from(">ii", said)
        return port, said[8 : 8 + length].decode()

    def end(self) -> None:
        """Let the JVM end in its own way and time: it stops Spark and, if it was asked to, records its classes."""
        if self.process.stdin:
            self.process.stdin.close()

    def kill(self) -> None:
        """End the JVM now; its Python workers follow."""
        self.process.kill()
        self.process.wait()
        if self.process.stdin:
            self.process.stdin.close()


def error_line(log: Path) -> str:
    """Give the most telling line of what a JVM printed: its first error, or its last line."""
    said = log.read_text("utf-8", "replace").replace("\0", "")  # its room is written ahead
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    wrong = [line for line in lines if re.search("rror|Exception", line)]
    return (wrong or lines or ["it said nothing"])[-1 if not wrong else 0][:300]
