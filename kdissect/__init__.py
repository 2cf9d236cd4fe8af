"""Dissect, explain and replay Apache Kafka traffic from packet captures.

    capture ─► streams ─────────────► tables ─────► report
     files,     TCP, frames,    │      rows of the   text, JSON,
     packets,   request and     │      public tables page
     segments   response pairs  └───► exchanges ──► dump | replay
                                       decoded,
                                       in order

Each package is a stage, and its name says what comes out of it:

- `capture` reads files and returns segments by connection; `streams` makes exchanges of them.
- `tables` makes rows of the public tables of exchanges; `report` explains them as text, JSON or a page.
- `exchanges` decodes exchanges in the order in which they began; `dump` writes and `replay` resends them.
- `protocol` knows what Kafka's bytes mean. `jit` compiles the loops that touch every packet.
- `spark` runs both passes on Spark and is the only package that imports it; `cli` is the command line.

In a notebook, with a Spark session of your own:

    import kdissect
    exchanges = kdissect.load_tables(spark, "incident.pcapng").exchanges
    kdissect.register(spark)
    spark.read.format("kdissect").option("table", "partitions").load("incident.pcapng")
"""

from importlib import import_module
from pathlib import Path
from typing import Any

__version__ = "0.1.0"

if not Path(__file__).exists():  # imported from the archive that executors of a cluster are sent
    from kdissect.package_archive import unpacked

    __path__ = [str(unpacked(Path(__file__).parents[1]))]

FOR_NOTEBOOKS = ("load_tables", "register")


def __getattr__(name: str) -> Any:
    """Return a function for notebooks, which is loaded only when it is used.

    The module is imported by name and not by a statement: every module imports this package, and only `spark`
    may need Spark.
    """
    if name in FOR_NOTEBOOKS:
        return getattr(import_module("kdissect.spark.notebook"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
