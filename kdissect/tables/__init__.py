"""From exchanges to rows of the public tables: their schemas, filters and pseudonyms.

`kdissect.tables(spark, path)` was the function that is now `kdissect.load_tables`. It goes with the next release.
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
