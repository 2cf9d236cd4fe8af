"""Dissect, explain and replay Apache Kafka traffic from packet captures.

    capture ─► packets ─► segments ─► streams ─► frames ─► messages ─► exchanges ─┬─► tables ─► report
     files     time_ns      TCP       ordered    length    header+body  request↔   └─► plan ─► replay
                                                                        response

`protocol` gives bytes their meaning, `capture` turns files into exchanges, `pipeline` runs both on Spark,
`report` explains the tables that come out.

In a notebook, with a Spark session of your own:

    import kdissect
    exchanges = kdissect.tables(spark, "incident.pcapng").exchanges
    kdissect.register(spark)
    spark.read.format("kdissect").option("table", "partitions").load("incident.pcapng")
"""

from importlib import import_module
from pathlib import Path
from typing import Any

__version__ = "0.1.0"

if not Path(__file__).exists():  # imported from the archive that executors of a cluster are sent
    from kdissect.shipped import unpacked

    __path__ = [str(unpacked(Path(__file__).parents[1]))]


def __getattr__(name: str) -> Any:
    """Load what a notebook asks for when it does, so that the import alone costs nothing.

    By name, not by an import statement: every module imports this package, and none but the pipeline may need Spark.
    """
    if name == "tables":  # the module with their columns, which gives the tables when it is called
        return import_module("kdissect.tables")
    if name == "register":
        return import_module("kdissect.pipeline.notebook").register
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
