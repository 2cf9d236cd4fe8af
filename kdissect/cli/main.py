"""From arguments to an exit code. Every failure becomes one sentence on standard error.

`KDISSECT_DEBUG=1` shows tracebacks and log messages too.
"""

import logging
import os
import signal
import sys
import traceback
from argparse import Namespace
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from types import FrameType
from typing import NoReturn

from kdissect.cli.arguments import parse
from kdissect.errors import ExitCode, UserError, is_debugging
from kdissect.files import NO_ROOM
from kdissect.jit import kernel_cache
from kdissect.memory import choose_allocator, collect_seldom, share_arena
from kdissect.spark.startup.block_unused import block_unused
from kdissect.spark.startup.quick_exit import quick_exit
from kdissect.startup_switch import Shortcut, is_on
from kdissect.text import escape_control

WITHOUT_END = ("watch",)
"""Commands that read more than there is at their start: the compiler always pays."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line. Return the exit code (see `ExitCode`).

    Without `argv`, run that of the process, and end the process.
    """
    if argv is not None:
        return _run_safely(argv)
    _open_closed_streams()
    collect_seldom()
    share_arena()
    code = _run_safely(sys.argv[1:])
    with suppress(KeyboardInterrupt, UserError):  # all is done and told, so Python may take longer to end
        quick_exit(code)
    return code


def _run_safely(argv: Sequence[str]) -> int:
    """Run a command line, and report every failure."""
    if not is_debugging():
        logging.disable(logging.CRITICAL)  # Py4J logs what it also raises
    with suppress(ValueError):  # outside the main thread the caller handles signals
        signal.signal(signal.SIGTERM, _terminated)
    try:
        done = _run(parse(argv))
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except BrokenPipeError:  # the reader has closed the pipe
        _stop_printing()
        return ExitCode.DONE
    except Exception as error:  # noqa: BLE001 - the user gets one sentence instead of a traceback
        return _report(error)
    return done


def _run(arguments: Namespace) -> int:
    """Run the command of the arguments. Return its exit code."""
    choose_allocator()
    if is_on(Shortcut.BLOCK_UNUSED):
        block_unused()
    paths = getattr(arguments, "paths", [])
    uncompiled = (
        arguments.command not in WITHOUT_END
        and is_on(Shortcut.UNCOMPILED_FIRST_RUN)
        and kernel_cache.run_uncompiled(paths)
    )
    run = getattr(import_module(f"kdissect.cli.{arguments.command}"), arguments.command)
    done: int = run(arguments) or ExitCode.DONE
    sys.stdout.flush()
    if uncompiled and kernel_cache.compile_in_background() and not getattr(arguments, "quiet", False):
        sys.stderr.write(
            "kdissect: first run: compiling in the background, once, for a minute; later runs are faster\n"
        )
    return done


def _report(error: Exception) -> int:
    if is_debugging():
        traceback.print_exc()
    sentence = str(error) or type(error).__name__
    if isinstance(error, OSError) and error.strerror:
        sentence = f"{error.filename}: {error.strerror.lower()}" if error.filename else error.strerror.lower()
    sys.stderr.write(f"kdissect: {escape_control(sentence)}\n")
    if isinstance(error, OSError) and error.errno in NO_ROOM:
        _stop_printing()
        return ExitCode.USER_ERROR
    return ExitCode.USER_ERROR if isinstance(error, UserError) else ExitCode.FAILED


def _stop_printing() -> None:
    from kdissect.cli.outputs import stop_printing

    stop_printing()


def _open_closed_streams() -> None:
    """Open the null device for standard streams that were closed (`>&-`).

    The next file that is opened would get their number, and be written to.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "w" if number else "r", closefd=False))  # noqa: SIM115


def _terminated(_signal: int, _frame: FrameType | None) -> NoReturn:
    """Exit in the ordinary way, so that Spark ends and temporary files are removed."""
    raise SystemExit(ExitCode.TERMINATED)
