"""Input of `kdissect dump`: files that are complete, or a pipe that is still being written.

Files are read twice, so that the first exchange knows what the last one tells (see `exchanges.prescan`).
Standard input is read once, while it comes: its exchanges are there before the pipe ends (see
`capture.live_capture`). A compressed pipe is unpacked to its end first, like a file. The first Ctrl-C ends
unpacking, indexing and the first reading of files: what they have passed until then is what is dumped.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING

from kdissect.bytes_progress import BytesProgress
from kdissect.capture.formats.decompress import is_compressed
from kdissect.capture.formats.file_types import STANDARD_INPUT
from kdissect.capture.stoppable_pipe import StoppablePipe
from kdissect.cli.interrupt import (
    Interrupt,
    interrupted_or,
    left_unread,
)
from kdissect.cli.reading_passes import ReadingPasses
from kdissect.errors import UserError
from kdissect.text import escape_control

if TYPE_CHECKING:
    from kdissect.capture.index.index import CaptureIndex
    from kdissect.capture.index.splits import Split
    from kdissect.capture.inputs import Inputs
    from kdissect.exchanges.prescan import LiveFacts, PrescanResult
    from kdissect.exchanges.reader import ExchangeReader
    from kdissect.tables.anonymize import Pseudonyms

SPLIT_BYTES = 2 << 20  # read at a time
STREAM_NAME = "standard input"


@dataclass(frozen=True, slots=True)
class DumpInput:
    """An opened capture: its reader, the facts that it rests on, and the time of its first packet."""

    reader: "ExchangeReader"
    facts: "PrescanResult | LiveFacts"
    start_ns: int
    is_live: bool = False
    last_warning: Callable[[], str | None] = lambda: None
    splits: "tuple[Split, ...]" = ()
    """Splits of files, none of a pipe."""
    passes: ReadingPasses = field(default_factory=lambda: ReadingPasses(()))


def open_dump_input(
    arguments: argparse.Namespace,
    spool: Path,
    pseudonyms: "Pseudonyms | None",
    interrupt: Interrupt,
    before_wait: Callable[[], None],
) -> DumpInput:
    """Return the opened captures of the command line. `before_wait` is called before each wait for a pipe.

    Raise InputError for what cannot be read.
    """
    if arguments.paths == [STANDARD_INPUT] and _is_plain_pipe():
        return _open_live(arguments, spool, interrupt, before_wait)
    return _open_files(arguments, spool, pseudonyms, interrupt)


def warn(sentence: str) -> None:
    """Write a warning to standard error."""
    sys.stderr.write(f"kdissect: {escape_control(sentence)}\n")


def _is_plain_pipe() -> bool:
    """Return whether standard input can be waited for, and is not compressed."""
    if not isinstance(sys.stdin.buffer, BufferedReader):
        return False
    first = sys.stdin.buffer.peek(1)
    return not is_compressed(first)


class _StandardInput:
    """Standard input behind the bytes that `_is_plain_pipe` has looked at."""

    def __init__(self, interrupt: Interrupt) -> None:
        buffered = sys.stdin.buffer
        self._first = buffered.read1() if isinstance(buffered, BufferedReader) and buffered.peek(1) else b""
        self._rest = StoppablePipe(buffered.fileno(), lambda: interrupt.has_come)

    def read(self, size: int) -> bytes:
        """Return some bytes, at most `size`."""
        first, self._first = self._first[:size], self._first[size:]
        return first or self._rest.read(size)


def _open_live(
    arguments: argparse.Namespace, spool: Path, interrupt: Interrupt, before_wait: Callable[[], None]
) -> DumpInput:
    from kdissect.capture.live_capture import LiveCapture
    from kdissect.exchanges.prescan import LiveFacts
    from kdissect.exchanges.reader import ExchangeReader
    from kdissect.streams.tls.keylog import keys_for

    path = spool / "live.capture"
    capture = LiveCapture(_StandardInput(interrupt), path, STREAM_NAME, before_wait)
    capture.wait_for_packets()
    facts = LiveFacts(lambda: capture.latest_time_ns or 0)
    keys = keys_for(arguments.keylog, (capture,))
    reader = ExchangeReader(capture, arguments.port, facts, keys)
    return DumpInput(reader, facts, capture.earliest_time_ns or 0, True, lambda: capture.warning)


def open_and_index(
    paths: Sequence[str], spool: Path, interrupt: Interrupt, quiet: bool = False
) -> "tuple[Inputs, CaptureIndex]":
    """Return the captures of the paths and their index, of what is read until an interrupt.

    Progress is shown unless `quiet`.

    Raise InputError, or KeyboardInterrupt if there is nothing before the interrupt.
    """
    from kdissect.capture.index.index import in_threads, index_captures
    from kdissect.capture.inputs import open_inputs

    try:
        inputs = open_inputs(paths, str(spool), is_stopped=lambda: interrupt.has_come)
    except UserError as error:
        raise interrupted_or(error, interrupt) from None
    scan = partial(in_threads, is_stopped=interrupt.since_now())
    with BytesProgress("indexing captures", quiet=quiet) as progress:
        found = index_captures(inputs.files, SPLIT_BYTES, progress, run=scan)
    if interrupt.has_come and not found.packets:
        raise KeyboardInterrupt
    if sentence := left_unread(inputs, found):
        warn(sentence)
    return inputs, found


def _open_files(
    arguments: argparse.Namespace, spool: Path, pseudonyms: "Pseudonyms | None", interrupt: Interrupt
) -> DumpInput:
    from kdissect.capture.index.index_prefix import index_prefix
    from kdissect.exchanges.prescan import prescan_capture
    from kdissect.exchanges.reader import ExchangeReader
    from kdissect.streams.tls.keylog import keys_for

    inputs, found = open_and_index(arguments.paths, spool, interrupt)
    warnings = (*(f"passed over {reason}" for reason in inputs.skipped), *found.warnings)
    if pseudonyms:
        warnings = pseudonyms.texts(warnings, [file.name for file in inputs.files])
    for warning in warnings:
        warn(warning)
    keys = keys_for(arguments.keylog, found.files)
    passes = ReadingPasses(found.splits, "reading packets", "dissecting")
    first_pass = passes.begin(found.splits, interrupt.since_now())
    prescan = prescan_capture(found.splits, arguments.port, keys, first_pass)
    if passes.interruption:
        passes.progress.clear()
        warn(passes.interruption)
        found = index_prefix(found, len(prescan.later_ns))
        passes = ReadingPasses(found.splits, "dissecting")
    # The reading itself never ends before the captures do: after Ctrl-C nobody asks for more exchanges.
    is_shown = not sys.stdout.isatty()  # else it would stand among the exchanges
    if not is_shown:
        passes.progress.clear()
    second_pass = passes.begin(found.splits, lambda: False, is_shown)
    reader = ExchangeReader(found.splits, arguments.port, prescan, keys, second_pass)
    return DumpInput(reader, prescan, found.earliest_time_ns or 0, splits=found.splits, passes=passes)
