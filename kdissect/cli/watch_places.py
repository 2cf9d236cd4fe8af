"""The places of a watch, on this machine or at URIs: its captures, its tables and its checkpoint."""

import argparse
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kdissect.capture.formats.file_types import STANDARD_INPUT
from kdissect.errors import UsageError

if TYPE_CHECKING:
    from kdissect.spark.watch.batch_store import BatchStore
    from kdissect.spark.watch.watched_directory import WatchedDirectory

CHECKPOINT = "_checkpoint"


def watched_directory(place: str) -> "WatchedDirectory":
    """Return a directory of captures that others write to. Raise UsageError."""
    from kdissect.capture.storage import check_bucket, is_uri
    from kdissect.capture.storage_folder import open_folder
    from kdissect.spark.watch.watched_directory import WatchedDirectory
    from kdissect.text import without_password

    directory = absolute(place)
    if is_uri(directory):
        try:
            check_bucket(directory)
            open_folder(directory).files()
        except OSError as error:
            reason = (error.strerror or str(error)).partition("\n")[0]
            raise UsageError(without_password(f"cannot list {directory}: {reason}")) from None
    elif not Path(directory).is_dir():
        raise UsageError(f"{place} is not a directory: watch follows directories of captures")
    return WatchedDirectory(directory, without_password(directory))


def check_cluster_captures(arguments: argparse.Namespace) -> None:
    """Raise UsageError if the executors of a cluster could not read the captures of a watch."""
    if arguments.interface is not None or arguments.directory == STANDARD_INPUT:
        raise UsageError("--interface and - keep their packets on this machine: they need --master local[N]")


def absolute(place: str) -> str:
    """Return an absolute path, or a URI of another file system."""
    from kdissect.capture.storage import is_uri, local_path

    return place if is_uri(place) else str(Path(local_path(place)).absolute())


@contextmanager
def opened_store(
    checkpoint: str | None, out: str | None, source: "WatchedDirectory", about: Mapping[str, Any], work: Path
) -> "Iterator[BatchStore]":
    """Open the store of a watch for a `with` block. Raise UserError.

    Without a checkpoint it lies in `out`, or in `work`, which ends with the run. The copy of one at a URI
    lies there, too.
    """
    from kdissect.capture.storage import is_uri, within
    from kdissect.spark.watch.batch_store import BatchStore
    from kdissect.spark.watch.far_checkpoint import FarCheckpoint

    out = absolute(out) if out else None
    place = absolute(checkpoint) if checkpoint else within(out, CHECKPOINT) if out else str(work)
    with ExitStack() as stack:
        copy = None
        if is_uri(place):
            copy = FarCheckpoint(place, work, source.directory)
            stack.callback(copy.close)
        store = BatchStore(Path(work if copy else place), out, about, copy)
        stack.callback(store.close)
        yield store
