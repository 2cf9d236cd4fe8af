"""Sources of secrets: a file, the environment or the terminal, never an argument.

Every user of a machine can read the arguments of all processes (`ps`), and shells keep them in a file. So
what looks like a secret among the arguments is refused before anything else is done, and is not repeated. The
environment of a process is readable by its own user only.
"""

import getpass
import os
import re
import stat
from collections.abc import Callable, Sequence
from pathlib import Path

from kdissect.errors import UsageError
from kdissect.text import URI_PASSWORD

ANONYMIZE_VARIABLE = "KDISSECT_ANONYMIZE_KEY"
PASSWORD_VARIABLE = "KDISSECT_SASL_PASSWORD"  # noqa: S105 - the name of a variable
KEY_PASSWORD_VARIABLE = "KDISSECT_TLS_KEY_PASSWORD"  # noqa: S105 - the name of a variable
REGISTRY_VARIABLE = "KDISSECT_SCHEMA_REGISTRY_PASSWORD"
TERMINAL = "-"  # in place of a file

FILE_OPTIONS = {
    "--anonymize-key-file": ("--anonymize-", ANONYMIZE_VARIABLE),
    "--password-file": ("--pas", PASSWORD_VARIABLE),
    "--schema-registry-password-file": ("--schema-registry-", REGISTRY_VARIABLE),
    "--sasl-password-file": ("--sasl-", PASSWORD_VARIABLE),
    "--tls-key-password-file": ("--tls-k", KEY_PASSWORD_VARIABLE),
}
"""Options that name a file with a secret: how their short forms begin, and the variable that does the same.

A short form is refused, since it may be meant as an option that takes the secret itself.
"""

URI_TOKEN = re.compile(r"\Asc://.*;\s*token=", re.IGNORECASE)
OPEN_TO_OTHERS = stat.S_IRGRP | stat.S_IROTH


def secret_among(arguments: Sequence[str]) -> str:
    """Return why the arguments are refused: one sentence without the secret, or nothing."""
    for argument in arguments:
        name, _, value = argument.partition("=")
        for option, (start, variable) in FILE_OPTIONS.items():
            if name != option and name.startswith(start) and option.startswith(name):
                known = option.replace("--sasl-", "--")
                return (
                    f"{name} is refused, because every user of this machine can read arguments: "
                    f"use {known} FILE ({TERMINAL} asks on the terminal) or ${variable}"
                )
        text = value if name.startswith("--") else argument
        if URI_TOKEN.search(text):
            return (
                "a token is refused, because every user of this machine can read arguments: use $SPARK_REMOTE"
            )
        if URI_PASSWORD.match(text):
            return (
                "a URI with a password is refused, because every user of this machine can read arguments: "
                "use the environment or the settings of the file system, such as $AWS_ACCESS_KEY_ID"
            )
    return ""


def read_secret(what: str, file: str | None, variable: str, warn: Callable[[str], None]) -> str | None:
    """Return a secret: the first line of a file, else the value of a variable; None if neither is given.

    In place of a file `-` asks on the terminal. `warn` is told if others may read the file. Raise UsageError
    for a secret that cannot be read, and for an empty file.
    """
    if file is None:
        return os.environ.get(variable) or None
    if file == TERMINAL:
        return _asked(what)
    path = Path(file)
    try:
        with path.open(encoding="utf-8") as opened:
            mode = os.fstat(opened.fileno()).st_mode
            secret = opened.readline().rstrip("\r\n")
    except UnicodeDecodeError:
        raise UsageError(f"{file} is no text in UTF-8, so the {what} cannot be read") from None
    except OSError as error:
        raise UsageError(
            f"cannot read the {what} from {file}: {(error.strerror or 'error').lower()}"
        ) from None
    if not secret:
        raise UsageError(f"the first line of {file} is empty, and should be the {what}")
    if stat.S_ISREG(mode) and mode & OPEN_TO_OTHERS:
        warn(f"{file} holds the {what}, and other users may read it: chmod 600 keeps it to yourself")
    return secret


def _asked(what: str) -> str:
    """Return what the user types on the terminal, which does not show it."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        raise UsageError(f"there is no terminal on which to ask for the {what}") from None
    secret = getpass.getpass(f"{what}: ")
    if not secret:
        raise UsageError(f"no {what} was given")
    return secret
