"""Spark's JVM as a child process, started without the scripts of spark-submit and their second JVM.

A local Spark needs only the class path and a few options from spark-submit. The rest of spark-submit serves
clusters, so for any other master this JVM runs Spark's own submit class. The JVM ends when its standard input
closes, which happens when this process ends, in whatever way.
"""

import os
import re
import struct
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from kdissect.memory import choose_allocator
from kdissect.spark.startup.class_data_sharing import ClassArchive
from kdissect.spark.startup.hand_over import ADDRESS
from kdissect.spark.startup.java import Java
from kdissect.spark.startup.lean_context import lean_environment, lean_options
from kdissect.spark.startup.prefork import SOCKET
from kdissect.spark.startup.short_class_path import local_jars
from kdissect.startup_switch import Shortcut, is_on

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

SHORT_LIFE_OPTIONS = (
    "-XX:TieredStopAtLevel=1",  # the optimising compiler costs more than it saves in so short a life
    "-XX:+UseSerialGC",
    "-XX:-UsePerfData",
    # Updates of Java 17 map class archives at random addresses, and change every pointer in them: 13,000 page
    # faults more, and 25 ms of a start.
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:ArchiveRelocationMode=0",
    "-Xms64m",  # the default is a share of the machine's memory, and garbage stays until that is full
    "-Xmn24m",
    "-XX:MaxHeapFreeRatio=45",  # a collection gives back what is free beyond that
)

OPTIONS = (
    "-XX:+IgnoreUnrecognizedVMOptions",
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
END_SECONDS = 20
LOG_ROOM = 16 << 10  # bytes
MAIN_DIED = re.compile(rb'Exception in thread "main" [^\n]+\n')

_FOREIGN = ("SPARK_", "PYSPARK_")
"""Prefixes of variables that belong to another Spark.

A local run ignores them, so that it is the same everywhere.
"""


class GatewayError(Exception):
    """The JVM did not start; the message is one sentence."""


class JavaEndedError(GatewayError):
    """The JVM ended before the program of Spark could report why."""


@dataclass(frozen=True, slots=True)
class JvmLaunch:
    """Settings of the JVM to start. `heap` is written as for Java (768m); `confs` go to spark-submit.

    `queries` says whether the run plans queries, which need more of Spark.
    """

    java: Java
    home: Path
    """The directory of this run, for the log of the JVM, its temporary files and the file with its port."""
    heap: str
    local: bool = True
    confs: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    queries: bool = True
    locks: tuple[int, ...] = ()
    """Descriptors that the JVM inherits: the lock of its directory.

    If this process is killed, the directory stays until the JVM has ended. A JVM that loses it while it
    starts would never end: its main thread dies, and the others run on.
    """

    @property
    def log(self) -> Path:
        """Everything the JVM prints."""
        return self.home / "java.log"

    @property
    def port_file(self) -> Path:
        """The file into which the JVM writes port and secret when it is ready."""
        return self.home / "gateway"

    def options(self) -> tuple[str, ...]:
        """JVM options that a class archive depends on."""
        return (
            *OPTIONS,
            *(SHORT_LIFE_OPTIONS if is_on(Shortcut.DIRECT_JVM) else ()),
            *(lean_options() if self.local else ()),
            f"-Xmx{self.heap}",
        )

    def jars(self) -> Sequence[Path]:
        """Return the jars of the class path."""
        shortens = self.local and is_on(Shortcut.SHORT_CLASS_PATH)
        return local_jars(spark_jars(), self.queries) if shortens else spark_jars()

    def command(self, archive: ClassArchive | None) -> list[str]:
        """Return the command line."""
        temporary = self.home / "tmp"
        settings = [
            f"-Dlog4j2.configurationFile={LOG_SETTINGS}",
            f"-Djava.io.tmpdir={temporary}",
            f"-XX:ErrorFile={self.home / 'java-crash.log'}",  # else it is left in the working directory
        ]
        first = archive.first_jars if archive else ()
        class_path = [*self._settings_folders(), *map(str, (*first, *self.jars()))]
        direct = self.local and is_on(Shortcut.DIRECT_JVM)
        main = [LOCAL_MAIN] if direct else [SUBMIT_MAIN, *self._submit_arguments()]
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
        """Return the environment of the JVM, which its Python workers inherit."""
        kept = {
            name: value
            for name, value in self.environment.items()
            if not (self.local and name.startswith(_FOREIGN))
        }
        # SPARK_HOME stays unset: with it, workers import pyspark from a zip of sources and compile it at
        # every start.
        kept.pop("SPARK_HOME", None)
        kept.pop("SPARK_REMOTE", None)  # Spark refuses this beside a master
        if self.confs.get("spark.master") == "yarn":
            # Only there does Spark find the jars and the pyspark that it sends to containers.
            kept["SPARK_HOME"] = str(spark_jars()[0].parents[1])
        package = Path(__file__).parents[3]
        if package.name not in ("site-packages", "dist-packages"):
            kept["PYTHONPATH"] = os.pathsep.join(filter(None, [str(package), kept.get("PYTHONPATH", "")]))
        choose_allocator(kept)
        return (
            kept
            | (lean_environment() if self.local else {})
            | {
                "_PYSPARK_DRIVER_CONN_INFO_PATH": str(self.port_file),
                "SPARK_CONNECT_MODE": "0",
                # Else workers would import modules from the working directory, which others may write to.
                "PYTHONSAFEPATH": "1",
                ADDRESS: str(self.home / SOCKET),
                # Every arena that glibc adds for a thread keeps the memory that was freed in it.
                "MALLOC_ARENA_MAX": "2",
                "OPENBLAS_NUM_THREADS": "1",
                "OMP_NUM_THREADS": "1",
            }
        )

    def _settings_folders(self) -> list[str]:
        names = () if self.local else ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR")
        return [self.environment[name] for name in names if self.environment.get(name)]

    def _submit_arguments(self) -> list[str]:
        pairs = (f"{name}={value}" for name, value in self.confs.items())
        return [word for pair in pairs for word in ("--conf", pair)] + ["pyspark-shell"]


@cache
def spark_jars() -> Sequence[Path]:
    """Return the jars of the installed pyspark, without importing it. Raise GatewayError if there is none."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise GatewayError("PySpark is not installed: pip install pyspark")
    return sorted((Path(spec.origin).parent / "jars").glob("*.jar"))


class JvmGateway:
    """A JVM that is starting or running."""

    def __init__(self, launch: JvmLaunch, archive: ClassArchive | None) -> None:
        self.launch, self.archive = launch, archive
        self._port_file = str(launch.port_file)  # a path would be made anew for each question
        (launch.home / "tmp").mkdir(exist_ok=True)
        with launch.log.open("wb") as log:
            log.write(bytes(LOG_ROOM))  # reserves room, so that a JVM that fails on a full disk can report it
            log.seek(0)
            self.process = subprocess.Popen(
                launch.command(archive),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=launch.child_environment(),
                pass_fds=launch.locks,
                # Ctrl-C is meant for this process, which then ends the JVM. In a session of its own, Linux
                # would weigh the JVM alone, and `nice kdissect` would not slow it down: sched(7).
                process_group=0,
            )

    def listens(self) -> bool:
        """Return whether `address` returns without waiting."""
        return os.path.exists(self._port_file)

    def address(self) -> tuple[int, str]:
        """Wait for the JVM. Return port and secret of its gateway. Raise GatewayError if the JVM fails."""
        deadline = time.monotonic() + START_SECONDS
        while not self.listens():
            ended = self.process.poll() is not None
            # A JVM whose main thread died, on a full disk for example, does not end: the thread of the
            # gateway runs on.
            died = MAIN_DIED.search(self.launch.log.read_bytes())
            if ended or died:
                kind = GatewayError if died else JavaEndedError
                raise kind(f"Java ended while Spark was starting: {error_line(self.launch.log)}")
            if time.monotonic() > deadline:
                raise GatewayError(f"Spark did not start within {START_SECONDS} seconds")
            time.sleep(0.005)
        content = self.launch.port_file.read_bytes()
        port, length = struct.unpack_from(">ii", content)
        return port, content[8 : 8 + length].decode()

    def stop(self) -> None:
        """Have the JVM end: at once, or, without the shortcut, in the ordinary way. It takes 0.02 s."""
        if is_on(Shortcut.QUICK_EXIT):
            self.process.kill()
        elif self.process.stdin:
            self.process.stdin.close()

    def end(self) -> None:
        """End the JVM, and wait for its end."""
        self.stop()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(END_SECONDS)
        self.kill()

    def kill(self) -> None:
        """Kill the JVM; its Python workers end with it."""
        self.process.kill()
        self.process.wait()
        if self.process.stdin:
            self.process.stdin.close()


def error_line(log: Path) -> str:
    """Return the first error that a JVM printed, or its last line."""
    printed = log.read_text("utf-8", "replace").replace("\0", "")  # zeros reserve its room
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    errors = [line for line in lines if re.search("rror|Exception", line)]
    return (errors or lines or ["it printed nothing"])[-1 if not errors else 0][:300]
