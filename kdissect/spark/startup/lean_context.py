"""A local Spark without three things that only its web page, its monitoring and clusters use.

Spark looks up the name of this machine and lists its network interfaces to find an address that other
machines reach. A local run stays on the loopback interface, so the address is stated instead.

Spark describes the origin of each RDD as JSON, for the graphs of its web page, and loads a library for it.
A local run has no such page.

Spark counts for monitoring how often plans are compiled and how much memory an executor has. Nobody reads
these counters of a local run.
"""

from typing import TYPE_CHECKING

from kdissect.spark.startup.switch import Shortcut, is_on

if TYPE_CHECKING:
    from pyspark import SparkContext

ADDRESS_VARIABLE = "SPARK_LOCAL_IP"
LOOPBACK = "127.0.0.1"
NO_SCOPES = "spark.rdd.scope.noOverride"  # SparkContext.RDD_SCOPE_NO_OVERRIDE_KEY

UNREAD_COUNTERS = ("spark.metrics.staticSources.enabled", "spark.metrics.executorMetricsSource.enabled")


def lean_settings() -> dict[str, str]:
    """Return settings of Spark for a local run."""
    return dict.fromkeys(UNREAD_COUNTERS, "false") if is_on(Shortcut.LEAN_CONTEXT) else {}


def lean_environment() -> dict[str, str]:
    """Return variables for the JVM of a local run."""
    return {ADDRESS_VARIABLE: LOOPBACK} if is_on(Shortcut.LEAN_CONTEXT) else {}


def leave_out_scopes(context: "SparkContext") -> None:
    """Keep jobs of the calling thread from describing RDDs."""
    if is_on(Shortcut.LEAN_CONTEXT):
        context.setLocalProperty(NO_SCOPES, "true")
