"""Settings of Spark for kdissect: what it sets, why, and the secrets of a run."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from kdissect.cache_directory import cache_home
from kdissect.files import processor_count
from kdissect.spark.startup.lean_context import lean_settings

LOCAL_HEAP = "512m"
LOCAL_MASTER = "local[*]"

QUIET_SETTINGS = {
    "spark.app.name": "kdissect",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.structuredLogging.enabled": "false",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.adaptive.enabled": "false",  # the plan is fixed: one shuffle into a known number of partitions
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(32 << 20),
    "spark.sql.execution.pythonUDF.arrow.enabled": "false",
    "spark.python.worker.reuse": "true",
    "spark.python.daemon.module": "kdissect.spark.startup.worker_daemon",
}

LOCAL_SETTINGS = {
    # Everybody on this machine reaches the loopback interface. Spark makes a secret for each run, which
    # stays in the JVM, and refuses whoever does not know it. Data on that way needs no encryption.
    "spark.authenticate": "true",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # Spark would compile plans with a Java compiler. For few rows, interpreting them is cheaper (`queries`).
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Short traces would be a variable of SQL's Python workers alone. Spark makes a daemon, with all modules,
    # for each set of variables: with the same ones SQL takes the daemon and the workers of jobs.
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
    "spark.shuffle.compress": "true",
    "spark.io.compression.codec": "lz4",
    "spark.shuffle.sort.bypassMergeThreshold": "64",
    "spark.memory.fraction": "0.5",
    # Garbage of a batch of a watch, or of a query, would stay in the heap. A collection takes 70 ms.
    "spark.cleaner.periodicGC.interval": "30s",
    "spark.task.maxFailures": "1",
    "spark.driver.maxResultSize": "0",
}

OWN_SECRET_SETTINGS = ("spark.authenticate", "spark.network.crypto.enabled", "spark.io.encryption.enabled")
"""Settings that keep others on a cluster's network, and on its machines' disks, from reading along.

YARN and Kubernetes make a secret for each application. A standalone cluster has one secret, which its
operators set, or none.
"""


class RunKind(StrEnum):
    """Kinds of runs. With the archive of a watch, a query over a million exchanges took 1.2 s longer."""

    RDD = "rdd"
    """Figures, and rows without queries."""
    SQL = "sql"
    """Queries, which take as many classes again."""
    STREAM = "stream"
    """A watch, which plans no queries and takes other classes of Spark SQL."""


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """How to run Spark. `confs` override all other settings; `notice` receives lines for the user.

    `kind` says which classes of Java a run needs: each kind has an archive of its own.
    """

    master: str = LOCAL_MASTER
    confs: Mapping[str, str] = field(default_factory=dict)
    cache: Path = field(default_factory=cache_home)
    notice: Callable[[str], None] = lambda _line: None
    kind: RunKind = RunKind.RDD

    @property
    def local(self) -> bool:
        """Return whether Spark runs on this machine, in the JVM that is started here."""
        return self.master == "local" or self.master.startswith("local[")

    @property
    def makes_secrets(self) -> bool:
        """Return whether the cluster makes a secret for each application."""
        return self.master == "yarn" or self.master.startswith("k8s://")

    def secret_confs(self, known: Callable[[str], str | None]) -> dict[str, str]:
        """Return what is set to keep others out of a cluster, beside what the user has set (`known`).

        An external shuffle service has the settings of its operators, which must be the same.
        """
        if not self.makes_secrets or known("spark.shuffle.service.enabled") == "true":
            return {}
        return {name: "true" for name in OWN_SECRET_SETTINGS if known(name) is None}

    @property
    def cores(self) -> int:
        """The number of cores of a local run."""
        stated = self.master.partition("[")[2].partition(",")[0].rstrip("]")
        if stated == "*":
            return processor_count()
        return int(stated) if stated.isdecimal() else 1

    def spark_confs(self) -> dict[str, str]:
        """Return the settings of Spark."""
        return {
            "spark.master": self.master,
            **QUIET_SETTINGS,
            **(LOCAL_SETTINGS | lean_settings() if self.local else {}),
            **self.confs,
        }
