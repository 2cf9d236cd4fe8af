"""The captures among the files of a batch, compressed ones unpacked for as long as the batch is processed."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from kdissect.capture.formats.file_types import InputError
from kdissect.capture.index.growing_index import CaptureRange
from kdissect.capture.inputs import open_inputs, unshared_spool
from kdissect.capture.storage import shared_scratch
from kdissect.spark.watch.file_journal import TakenFile


@dataclass(slots=True)
class BatchCaptures:
    """Captures of a batch, the files that they are in, and a notice for each file that is no capture."""

    captures: list[CaptureRange] = field(default_factory=list)
    files: list[TakenFile] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)


def batch_captures(
    files: Sequence[TakenFile],
    name_of: Callable[[str], str],
    spool: str,
    is_shared: bool,
    unpacked: ExitStack,
) -> BatchCaptures:
    """Return the captures among `files`, named as `name_of` says.

    Compressed ones are unpacked into the directory or URI `spool`, until `unpacked` is closed. Raise
    InputError for a compressed one if the tasks do not share that place.
    """
    found = BatchCaptures()
    for file in files:
        try:
            folder = unpacked.enter_context(shared_scratch(spool))
        except OSError as error:
            raise InputError.of(spool, error) from None
        try:
            (capture,) = open_inputs([file.path], folder).files
        except InputError as error:
            found.notices.append(f"skipped {error}")
            continue
        if capture.spooled and not is_shared:
            raise unshared_spool(capture.name)
        stop = None if capture.spooled else file.size
        named = replace(capture, name=name_of(file.path))
        found.captures.append(CaptureRange(named, file.start, stop, file.is_closed))
        found.files.append(file)
    return found
