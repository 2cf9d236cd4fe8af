"""From exchanges to rows of the public tables.

In come pieces of connections (`capture`), which `streams` turns into batches of exchanges. Out go Arrow
batches.

- `schemas` has the public tables, and `connection_schema`, `exchange_schema` and `event_schema` define their
  columns; `build` is pass two as one function.
- `exchanges`, `partitions`, `connections` and `events` make the rows of the tables of these names;
  `kafka07_rows` makes those of the protocol before Kafka 0.8.
- `message_columns` reads the messages of a batch into columns; `arrow_columns` makes Arrow columns of them.
- `long_polls` marks latency by design, `topic_ids` finds the names of topic ids and the addresses of nodes.
- `exchange_keys` finds the exchange of a row, `filters` selects rows, `anonymize` replaces names.

`kdissect.tables(spark, path)` is a deprecated alias of `kdissect.load_tables` and goes with the next release.
"""

import sys
import warnings
from importlib import import_module
from types import ModuleType
from typing import Any


class _Deprecated(ModuleType):
    """A package that can still be called: the alias of `kdissect.load_tables` for one release."""

    def __call__(self, spark: Any, path: Any, **options: Any) -> Any:
        warnings.warn("kdissect.tables() is now kdissect.load_tables()", DeprecationWarning, stacklevel=2)
        return import_module("kdissect.spark.notebook").load_tables(spark, path, **options)


sys.modules[__name__].__class__ = _Deprecated
