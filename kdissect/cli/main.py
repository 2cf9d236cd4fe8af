"""From arguments to an exit code; every failure becomes one sentence on standard error.

`KDISSECT_DEBUG=1` shows tracebacks and keeps nothing back.
"""

import logging
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from types import FrameType
from typing import NoReturn

from kdissect import compiled
from kdissect.cli.arguments import parse
from kdissect.lean import without_pandas
from kdissect.safe import visible
from kdissect.unfinished import NO_ROOM

DONE, FAILED, REFUSED, HELD, INTERRUPTED, TERMINATED = 0, 1, 2, 3, 130, 143
"""HELD: the work was done, and what the user did not want to see is there."""

REFUSALS = frozenset(
    {
        "InputError",
        "JavaMissing",
        "NoConnect",
        "OutputRefused",
        "NothingToReport",
        "WrongLimits",
        "WrongQuestion",
        "Refused",
        "Refusing",
        "HandshakeFailed",
        "DiskFull",
    }
)
"""Exceptions for what the user can put right; told by name, since importing them all would take time."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; give the exit code."""
    chosen = parse(sys.argv[1:] if arguments is None else arguments)
    if not _debugging():
        logging.disable(logging.CRITICAL)  # Py4J logs what it also raises
    with suppress(ValueError):  # not the main thread: whoever runs us there deals with signals
        signal.signal(signal.SIGTERM, _terminated)
    without_pandas()
    uncompiled = compiled.go_without(getattr(chosen, "paths", []))
    try:
        run = getattr(import_module(f"kdissect.cli.{chosen.command}"), chosen.command)
        done: int = run(chosen) or DONE
        sys.stdout.flush()
        if uncompiled and compiled.compile_behind() and not getattr(chosen, "quiet", False):
            sys.stderr.write(
                "kdissect: first run: compiling in the background for faster runs (once, a minute)\n"
            )
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # the reader has seen enough
        _stop_writing()
        return DONE
    except Exception as error:  # noqa: BLE001 - the last stop: one sentence instead of a traceback
        return _told(error)
    return done


def _told(error: Exception) -> int:
    if _debugging():
        traceback.print_exc()
    sentence = str(error) or type(error).__name__
    if isinstance(error, OSError) and error.strerror:
        sentence = f"{error.filename}: {error.strerror.lower()}" if error.filename else error.strerror.lower()
    sys.stderr.write(f"kdissect: {visible(sentence)}\n")
    if isinstance(error, OSError) and error.errno in NO_ROOM:
        _stop_writing()
        return REFUSED
    return REFUSED if any(kind.__name__ in REFUSALS for kind in type(error).__mro__) else FAILED


def _stop_writing() -> None:
    """Forget what could not be written to standard output: at its end Python would try, and fail, once more."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _debugging() -> bool:
    return os.environ.get("KDISSECT_DEBUG") == "1"


def _terminated(_signal: int, _frame: FrameType | None) -> NoReturn:
    """Leave by the ordinary way, so that Spark ends and temporary files go."""
    raise SystemExit(TERMINATED)
