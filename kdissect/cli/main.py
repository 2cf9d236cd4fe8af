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

from kdissect.cli.arguments import parse
from kdissect.errors import ExitCode, UserError
from kdissect.files import NO_ROOM
from kdissect.jit import kernel_cache
from kdissect.spark.startup.block_pandas import without_pandas
from kdissect.text import escape_control


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; give the exit code."""
    chosen = parse(sys.argv[1:] if arguments is None else arguments)
    if not _debugging():
        logging.disable(logging.CRITICAL)  # Py4J logs what it also raises
    with suppress(ValueError):  # not the main thread: whoever runs us there deals with signals
        signal.signal(signal.SIGTERM, _terminated)
    without_pandas()
    try:
        uncompiled = kernel_cache.run_uncompiled(getattr(chosen, "paths", []))
        run = getattr(import_module(f"kdissect.cli.{chosen.command}"), chosen.command)
        done: int = run(chosen) or ExitCode.DONE
        sys.stdout.flush()
        if uncompiled and kernel_cache.compile_in_background() and not getattr(chosen, "quiet", False):
            sys.stderr.write(
                "kdissect: first run: compiling in the background for faster runs (once, a minute)\n"
            )
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except BrokenPipeError:  # the reader has seen enough
        _stop_writing()
        return ExitCode.DONE
    except Exception as error:  # noqa: BLE001 - the last stop: one sentence instead of a traceback
        return _told(error)
    return done


def _told(error: Exception) -> int:
    if _debugging():
        traceback.print_exc()
    sentence = str(error) or type(error).__name__
    if isinstance(error, OSError) and error.strerror:
        sentence = f"{error.filename}: {error.strerror.lower()}" if error.filename else error.strerror.lower()
    sys.stderr.write(f"kdissect: {escape_control(sentence)}\n")
    if isinstance(error, OSError) and error.errno in NO_ROOM:
        _stop_writing()
        return ExitCode.USER_ERROR
    return ExitCode.USER_ERROR if isinstance(error, UserError) else ExitCode.FAILED


def _stop_writing() -> None:
    """Forget what could not be written to standard output: at its end Python would try, and fail, once more."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _debugging() -> bool:
    return os.environ.get("KDISSECT_DEBUG") == "1"


def _terminated(_signal: int, _frame: FrameType | None) -> NoReturn:
    """Leave by the ordinary way, so that Spark ends and temporary files go."""
    raise SystemExit(ExitCode.TERMINATED)
