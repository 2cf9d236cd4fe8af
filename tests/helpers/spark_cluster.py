"""A standalone Spark cluster on the loopback interface: a master and workers, whose Python has never heard
of kdissect.

Or a Spark Connect server, that does the work by itself with the same Python.
"""

import os
import re
import signal
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from kdissect.spark.session import Engine
from kdissect.spark.startup.java import find_java
from kdissect.spark.startup.jvm import OPTIONS, spark_jars
from tests.helpers.apart_host import ApartHost

START_SECONDS = 120
PYTHON = "python"
DEPLOY = "org.apache.spark.deploy"
SHORT_LIFE = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:-BytecodeVerificationRemote",  # of Spark's own classes
)
FOREIGN = {"PYTHONPATH", "NUMBA_CACHE_DIR"}  # of this process; the workers are other machines


def make_python(folder: Path) -> Path:
    """Make an interpreter that finds every package but ours, and pandas, which only a client of Spark Connect
    needs."""
    packages, python = folder / "packages", folder / PYTHON
    packages.mkdir()
    for path in Path(sysconfig.get_paths()["purelib"]).iterdir():
        if not path.name.startswith(("kdissect", "_kdissect", "__pycache__", "pandas")):
            (packages / path.name).symlink_to(path)
    python.write_text(f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{packages}" exec {sys.executable} -S "$@"\n')
    python.chmod(0o755)
    return python


@contextmanager
def half_way(engine: Engine, tasks: int, kill: Callable[[], None]) -> Iterator[None]:
    """Kill something when a stage of so many tasks is under way; see to it that some were done again."""
    tracker = engine.context().statusTracker()
    done = threading.Event()
    struck: list[int] = []

    def strike() -> None:
        while not done.wait(0.005) and not struck:
            for number in tracker.getActiveStageIds():
                stage = tracker.getStageInfo(number)
                if stage and stage.numTasks == tasks and 3 <= stage.numCompletedTasks < tasks - 3:
                    kill()
                    struck.append(number)

    before = set(tracker.getJobIdsForGroup())
    killer = threading.Thread(target=strike)
    killer.start()
    try:
        yield
    finally:
        done.set()
        killer.join()
    assert struck
    ran = [tracker.getJobInfo(job) for job in set(tracker.getJobIdsForGroup()) - before]
    numbers = {
        *struck,
        *(number for job in ran if job for number in job.stageIds),
    }  # a stream has its own jobs
    stages = [tracker.getStageInfo(number) for number in numbers]
    assert any(stage.numFailedTasks or stage.currentAttemptId for stage in stages if stage), stages


class Standalone:
    """A context manager; `master` is the URL, `python` what the executors run."""

    def __init__(self, folder: Path, workers: int = 2, apart: ApartHost | None = None) -> None:
        """Have the last worker on a host `apart`, if there is one."""
        self._folder, self._count, self._apart = folder, workers, apart
        self._host = "127.0.0.1" if apart is None else apart.here
        self._processes: list[subprocess.Popen[bytes]] = []
        self.master = ""
        self.python = folder / PYTHON

    def __enter__(self) -> Self:
        make_python(self._folder)
        log = self._start(
            "master", f"{DEPLOY}.master.Master", "--host", self._host, "--port", "0", "--webui-port", "0"
        )
        self.master = self._said(log, r"Starting Spark master at (spark://\S+)")
        try:
            for number in range(self._count):
                self.add_worker(f"worker-{number}", self._apart if number == self._count - 1 else None)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def add_worker(self, name: str, apart: ApartHost | None = None) -> None:
        """Start a worker of one slot, and wait until the master knows it."""
        host = self._host if apart is None else apart.address
        arguments = ["--host", host, "--webui-port", "0", "--cores", "1", "--memory", "1g"]
        arguments += ["--work-dir", str(self._folder / name), self.master]
        log = self._start(name, f"{DEPLOY}.worker.Worker", *arguments, apart=apart)
        self._said(log, r"(Successfully registered)")

    @property
    def confs(self) -> dict[str, str]:
        """Settings for an engine on this cluster."""
        return {
            "spark.driver.host": self._host,
            "spark.driver.bindAddress": self._host,
            "spark.executor.memory": "512m",
            "spark.executor.extraJavaOptions": " ".join(SHORT_LIFE),
            "spark.executorEnv.XDG_CACHE_HOME": str(self.cache),
            "spark.executorEnv.KDISSECT_JIT": "0",  # compiling takes longer than all that is done here
        }

    @property
    def cache(self) -> Path:
        """The user's cache on the machines of the workers."""
        return self._folder / "cache"

    def kill_worker(self) -> None:
        """End one worker and its executors, without a word of farewell."""
        os.killpg(self._processes.pop().pid, signal.SIGKILL)

    def signal_worker(self, number: signal.Signals) -> None:
        """Send a signal to one worker and all that it has started."""
        left = [self._processes[-1].pid]
        while left:
            process = left.pop()
            left += _children(process)
            os.kill(process, number)

    def kill_executor(self) -> None:
        """End the executors of one worker, which starts others."""
        children = _children(self._processes[-1].pid)
        assert children
        for child in children:
            os.kill(child, signal.SIGKILL)

    def executor_logs(self) -> str:
        """Return what the executors said."""
        return "\n".join(path.read_text() for path in self._folder.glob("worker-*/app-*/*/stderr"))

    def _start(
        self,
        name: str,
        *main: str,
        variables: Mapping[str, str] | None = None,
        apart: ApartHost | None = None,
    ) -> Path:
        jars = spark_jars()
        environment = {key: value for key, value in os.environ.items() if key not in FOREIGN}
        environment |= {
            "SPARK_HOME": str(jars[0].parents[1]),
            "SPARK_LOCAL_IP": self._host if apart is None else apart.address,
        }
        environment["SPARK_SCALA_VERSION"] = "2.13"  # as Spark's own script for starting workers finds out
        environment |= variables or {}
        command = [str(find_java().program), "-Xmx256m", *SHORT_LIFE]
        command += ["-cp", str(jars[0].parent / "*"), *main]
        command = [*(apart.command if apart else ()), *command]
        log = self._folder / f"{name}.log"
        with log.open("wb") as said:
            process = subprocess.Popen(
                command, stdout=said, stderr=said, env=environment, cwd=self._folder, start_new_session=True
            )
        self._processes.append(process)
        return log

    def _said(self, log: Path, pattern: str) -> str:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if found := re.search(pattern, log.read_text()):
                return found[1]
            if self._processes[-1].poll() is not None:
                break
            time.sleep(0.05)
        raise RuntimeError(f"{log.stem} did not start: {log.read_text()[-2000:]}")

    def _end(self) -> None:
        for process in self._processes:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _children(process: int) -> list[int]:
    """Return the processes that a process has started."""
    threads = Path(f"/proc/{process}/task").glob("*/children")
    return [int(child) for thread in threads for child in thread.read_text().split()]


class ConnectServer(Standalone):
    """A context manager; `master` is the URL."""

    def __enter__(self) -> Self:
        make_python(self._folder)
        settings = {
            "spark.master": "local[2]",
            "spark.app.name": "server",
            "spark.ui.enabled": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.local.dir": str(self._folder / "spark"),
            "spark.sql.warehouse.dir": str(self._folder / "warehouse"),
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": "0",
        }
        log = self._start(
            "connect",
            *OPTIONS,
            "-Xmx512m",
            *(f"-D{name}={value}" for name, value in settings.items()),
            "org.apache.spark.sql.connect.service.SparkConnectServer",
            variables={
                "PYSPARK_PYTHON": str(self.python),
                "XDG_CACHE_HOME": str(self.cache),
                "KDISSECT_JIT": "0",
            },
        )
        try:
            self.master = (
                f"sc://{self._said(log, r'Spark Connect server started at: [^ ]*?(127.0.0.1:[0-9]+)')}"
            )
        except BaseException:
            self._end()
            raise
        return self
