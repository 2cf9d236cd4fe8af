"""Going without pandas, which PyArrow and PySpark import wherever it is installed: half of a second for what nobody uses here."""

import sys
from collections.abc import Sequence


class PandasBlocker:
    """A finder of modules by which pandas is not installed."""

    @staticmethod
    def find_spec(name: str, _path: Sequence[str] | None, _target: object = None) -> None:
        """Raise ModuleNotFoundError for pandas; leave everything else to other finders."""
        if name == "pandas":
            raise ModuleNotFoundError("No module named 'pandas'", name=name)


def block_pandas() -> None:
    """Make this process, and those it forks, go without."""
    if PandasBlocker not in sys.meta_path:
        sys.meta_path.insert(0, PandasBlocker)


def allow_pandas() -> None:
    """Let pandas be imported again."""
    if PandasBlocker in sys.meta_path:
        sys.meta_path.remove(PandasBlocker)
