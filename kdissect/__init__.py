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
- `library` offers exchanges and the codec to Python programs, without Spark.
- `spark` runs both passes on Spark and is the only package that imports it; `cli` is the command line.

In a program of your own, without Spark:

    import kdissect
    for exchange in kdissect.read("incident.pcapng", topic="orders*"):
        print(exchange.api_name, exchange.client, exchange.errors)
    kdissect.decode_request(kdissect.encode_request("Metadata", 12, {"topics": None}))

In a notebook, with a Spark session of your own:

    import kdissect
    exchanges = kdissect.load_tables(spark, "incident.pcapng").exchanges
    kdissect.register(spark)
    spark.read.format("kdissect").option("table", "partitions").load("incident.pcapng")
"""

import os
from importlib import import_module

__version__ = "0.1.0"

# Type checkers take it for true. `typing` would take a third of the time of the program that Spark starts
# first of all (`spark.startup.hand_over`), and the job waits for that.
TYPE_CHECKING = False

if not os.path.exists(__file__):  # imported from the archive that executors of a cluster are sent
    from pathlib import Path

    from kdissect.package_archive import unpacked

    __path__ = [str(unpacked(Path(__file__).parents[1]))]

if TYPE_CHECKING:
    from typing import Any

    from kdissect.errors import UserError
    from kdissect.exchanges.topic_records import TopicRecord
    from kdissect.library.captured_exchanges import CapturedExchange, read
    from kdissect.library.message_functions import (
        decode_request,
        decode_response,
        encode_request,
        encode_response,
    )
    from kdissect.protocol.codec.messages import CodecError, DecodedMessage, DecodeError, EncodeError
    from kdissect.spark.notebook import load_tables, register

__all__ = [
    "CapturedExchange",
    "CodecError",
    "DecodeError",
    "DecodedMessage",
    "EncodeError",
    "TopicRecord",
    "UserError",
    "decode_request",
    "decode_response",
    "encode_request",
    "encode_response",
    "load_tables",
    "read",
    "register",
]

_HOMES = {
    "kdissect.errors": ("UserError",),
    "kdissect.library.captured_exchanges": ("CapturedExchange", "read"),
    "kdissect.library.message_functions": (
        "decode_request",
        "decode_response",
        "encode_request",
        "encode_response",
    ),
    "kdissect.exchanges.topic_records": ("TopicRecord",),
    "kdissect.protocol.codec.messages": ("CodecError", "DecodeError", "DecodedMessage", "EncodeError"),
    "kdissect.spark.notebook": ("load_tables", "register"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> "Any":
    """Return what the package offers to programs and notebooks, loaded only when it is used.

    Modules are imported by name and not by a statement: every module imports this package, and only `spark`
    may need Spark.
    """
    if name in _HOME_OF:
        return getattr(import_module(_HOME_OF[name]), name)
    if name == "tables":  # the package, which is also the deprecated alias of `load_tables`
        return import_module("kdissect.tables")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the names that the package offers, for completion."""
    return [*globals(), *__all__]
