"""A local Spark without what only its web page, its monitoring, its log and clusters use.

Spark looks up the name of this machine and lists its network interfaces to find an address that other
machines reach. A local run stays on the loopback interface, so the address is stated instead.

Spark describes the origin of each RDD as JSON, for the graphs of its web page, and loads a library for it.
A local run has no such page.

Spark counts for monitoring how often plans are compiled and how much memory an executor has, and makes a web
page of its figures. Nobody reads these of a local run.

Spark asks Hadoop for the name of the user, which reads the settings of Hadoop's security. It is stated
instead.

The library that writes Spark's log takes a quarter of the Java code of a start. A failure of a local run
reaches this process as an exception, or is printed by Java itself. KDISSECT_DEBUG=1 keeps the log.
"""

from typing import TYPE_CHECKING

from kdissect.errors import is_debugging
from kdissect.startup_switch import Shortcut, is_on

if TYPE_CHECKING:
    from pyspark import SparkContext

ADDRESS_VARIABLE = "SPARK_LOCAL_IP"
LOOPBACK = "127.0.0.1"
NO_SCOPES = "spark.rdd.scope.noOverride"  # SparkContext.RDD_SCOPE_NO_OVERRIDE_KEY

USER_VARIABLE = "SPARK_USER"
USER = "kdissect"  # nothing of a local run depends on it

UNREAD_COUNTERS = (
    "spark.metrics.staticSources.enabled",
    "spark.metrics.executorMetricsSource.enabled",
    "spark.ui.prometheus.enabled",
)

NO_LOG = (
    "-Dslf4j.provider=org.slf4j.helpers.NOP_FallbackServiceProvider",
    "-Dslf4j.internal.verbosity=ERROR",
    # Netty looks for another log then. This one prints errors, and takes little.
    "-Dlog4j2.loggerContextFactory=org.apache.logging.log4j.simple.SimpleLoggerContextFactory",
)
"""Options with which Java code that logs through SLF4J logs nothing."""


def lean_settings() -> dict[str, str]:
    """Return settings of Spark for a local run."""
    return dict.fromkeys(UNREAD_COUNTERS, "false") if is_on(Shortcut.LEAN_CONTEXT) else {}


def lean_environment() -> dict[str, str]:
    """Return variables for the JVM of a local run."""
    return {ADDRESS_VARIABLE: LOOPBACK, USER_VARIABLE: USER} if is_on(Shortcut.LEAN_CONTEXT) else {}


def lean_options() -> tuple[str, ...]:
    """Return options for the JVM of a local run."""
    return NO_LOG if is_on(Shortcut.LEAN_CONTEXT) and not is_debugging() else ()


def leave_out_scopes(context: "SparkContext") -> None:
    """Keep jobs of the calling thread from describing RDDs."""
    if is_on(Shortcut.LEAN_CONTEXT):
        context.setLocalProperty(NO_SCOPES, "true")
