"""Shared parts of engines that start no Spark of their own: a scratch directory, and cleaning at their end.

An engine is the place of one run (see `session.Engine`). It is a context manager. Its end calls `rest`,
removes the directory, and undoes what `afterwards` holds.
"""

from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from kdissect.files import ScratchDirectory
from kdissect.spark.failures import disk_full_explained
from kdissect.spark.spark_settings import SparkSettings

if TYPE_CHECKING:
    from kdissect.spark.reading_stop import ReadingStop
    from kdissect.streams.tls.keylog import KeyLog


class ScratchEngine:
    """An engine with a scratch directory on this machine."""

    log: Path | None = None  # no log of a JVM
    may_be_helped = False  # nothing is scanned ahead for it

    def __init__(self, settings: SparkSettings) -> None:
        self.settings = settings
        with disk_full_explained():
            self._scratch = ScratchDirectory()
        self.afterwards = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.rest()
        finally:
            self._scratch.end()
            self.afterwards.close()

    @property
    def temporary(self) -> Path:
        """A directory that lasts as long as the engine."""
        return self._scratch.path

    def reading_stop(self, folder: Path) -> "ReadingStop | None":  # noqa: ARG002 - as that of `Engine`
        """Return None: nothing ends the reading of a run before its end."""
        return None

    def share_keys(self, keys: "KeyLog") -> "KeyLog":
        """Return the key log as tasks carry it, which is as it is."""
        return keys

    def rest(self) -> None:
        """End what runs; here nothing does."""
