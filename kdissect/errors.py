"""Errors that the user can meet, and the exit codes of the command.

One base class and one table for all packages.

A `UserError` is something that the user can put right: a wrong option, an unusable file, a full disk. Its
message is one sentence, which the command prints without a traceback; the command then exits with
`ExitCode.USER_ERROR`. Any other exception that reaches the command is a failure of kdissect or of the
machine.
"""

import os
from enum import IntEnum
from typing import Self

DEBUG_VARIABLE = "KDISSECT_DEBUG"


def is_debugging() -> bool:
    """Return whether tracebacks and logs are wanted."""
    return os.environ.get(DEBUG_VARIABLE) == "1"


class ExitCode(IntEnum):
    """The exit codes of every command."""

    DONE = 0
    NOTHING_FOUND = 1
    """`dump` found nothing to show; 1 as with grep."""
    USER_ERROR = 2
    CONDITION_MET = 3
    """The work is done, and it shows what the user did not want.

    A `--fail-on` condition holds, clients would break, or a replay diverged.
    """
    INVALID = 4
    """A replay was made, but it says nothing about the target."""
    FAILED = 70
    """A defect of kdissect, of Spark or of the machine; EX_SOFTWARE of sysexits.h."""
    INTERRUPTED = 130
    TERMINATED = 143


class UserError(Exception):
    """Something that the user can put right; the message is one sentence."""


class UsageError(UserError):
    """The arguments of the command cannot be served, whatever the captures hold."""


class OutputError(UserError):
    """The output cannot be written where the user wants it."""

    @classmethod
    def of(cls, target: object, error: OSError) -> Self:
        """Return the error for a target at which the operating system refused to write."""
        if isinstance(error, FileExistsError | NotADirectoryError):
            return cls(f"cannot write to {target}: not a directory")
        return cls(
            f"cannot write to {target}: {(error.strerror or str(error)).partition(chr(10))[0].lower()}"
        )
