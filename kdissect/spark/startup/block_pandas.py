"""Keep PyArrow and PySpark from importing pandas, which takes half a second and is not used here."""

import sys
from collections.abc import Sequence


class PandasBlocker:
    """A finder of modules for which pandas is not installed."""

    @staticmethod
    def find_spec(name: str, _path: Sequence[str] | None, _target: object = None) -> None:
        """Raise ModuleNotFoundError for pandas; leave everything else to other finders."""
        if name == "pandas":
            raise ModuleNotFoundError("No module named 'pandas'", name=name)


def block_pandas() -> None:
    """Hide pandas from this process and those that it forks."""
    if PandasBlocker not in sys.meta_path:
        sys.meta_path.insert(0, PandasBlocker)


def allow_pandas() -> None:
    """Make pandas importable again."""
    if PandasBlocker in sys.meta_path:
        sys.meta_path.remove(PandasBlocker)
