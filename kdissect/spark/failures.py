"""Failures of Spark in one sentence.

They are those of Python workers, of the JVM and of connections. Stack traces are left out.
"""

import re
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from kdissect.errors import UserError
from kdissect.files import NO_ROOM, is_full
from kdissect.spark.startup.jvm import GatewayError, error_line

_SPARK_NOISE = re.compile(r"^(?:[\w.$]+(?:Exception|Error): *|\([\w.$]+(?:Exception|Error)\) *)")

NO_SPACE = "no space left on the disk of the output, or of temporary files (set TMPDIR to a larger one)"
_NO_SPACE_SIGNS = ("No space left on device", "Disk quota exceeded")
_WORKER_LOST = "a worker process ended unexpectedly (killed for its memory?)"
_PLAIN = {
    "java.lang.OutOfMemoryError": "Spark ran out of memory",
    **dict.fromkeys(_NO_SPACE_SIGNS, NO_SPACE),
    "MemoryError": "a worker ran out of memory",
    "Python worker exited unexpectedly": _WORKER_LOST,
    "ProcessLostError": _WORKER_LOST,
}

AUTHENTICATION = (
    "Spark has to authenticate (spark.authenticate) and has no secret: set spark.authenticate.secret in a "
    "spark-defaults.conf of mode 0600, and name its directory in SPARK_CONF_DIR"
)
NO_MASTER = "the master of the Spark cluster does not answer (--master)"
FAILED_BARRIER = "failed barrier"
NO_BARRIER = "tasks that have to run at the same time could not start, or an executor was lost while they did"
_SETTINGS = {
    "A secret key must be specified via the spark.authenticate.secret": AUTHENTICATION,
    "All masters are unresponsive": NO_MASTER,
}
"""Messages of Spark about settings that the user can put right, and our sentence for each."""

_ABOUT_VALUES = re.compile(r"SQLSTATE: 22\w{3}")  # data exceptions, in the SQL standard

MOST_CAUSES = 10
_SENTENCES = (
    "InputError",
    "CaptureChanged",
    "DriverUnreachable",
)  # exceptions whose message is meant for the user

_UNREADABLE = ("FileNotFoundError", "PermissionError")

PYTHON_ADVICE = "PYSPARK_PYTHON, or spark.pyspark.python, names the interpreter of the executors"
DEBUGGING = "this is a defect of kdissect; KDISSECT_DEBUG=1 shows where"


class JobError(Exception):
    """A Spark job failed; the message is one sentence for the user."""


class DiskFullError(JobError, UserError):
    """A Spark job failed because a disk is full."""


class ValuesError(JobError, UserError):
    """A query asks of values what they do not allow, such as to divide by zero."""


class SettingsError(JobError, UserError):
    """Spark cannot work with the settings that it has."""


def is_from_spark(error: Exception) -> bool:
    """Return whether Spark, or the connection to it, raised an exception."""
    names = {kind.__module__.partition(".")[0] for kind in type(error).__mro__}
    return bool(names & {"pyspark", "py4j", "grpc"}) or isinstance(
        error, GatewayError | EOFError | ConnectionResetError | ConnectionRefusedError
    )


def job_error(error: BaseException, log: Path | None = None) -> JobError:
    """Return the error for an exception that Spark raised; `log` is the file of what the JVM printed."""
    sentence = explain(error, log)
    if sentence == NO_SPACE or (log and _disk_is_full(log)):
        return DiskFullError(NO_SPACE)
    if _ABOUT_VALUES.search(sentence):
        return ValuesError(sentence)
    if sentence not in _SETTINGS.values():
        sentence = _settings_in(log) or sentence
    return SettingsError(sentence) if sentence in _SETTINGS.values() else JobError(sentence)


def _settings_in(log: Path | None) -> str:
    """Return the sentence for settings that Spark printed of before it ended; empty if there is none."""
    with suppress(OSError):
        content = log.read_bytes() if log else b""
        return next((sentence for sign, sentence in _SETTINGS.items() if sign.encode() in content), "")
    return ""


def _disk_is_full(log: Path) -> bool:
    """Return whether the disk of temporary files is or was full, which Spark reports in many ways."""
    with suppress(OSError):
        content = log.read_bytes()
        return any(sign.encode() in content for sign in _NO_SPACE_SIGNS) or is_full(log.parent)
    return False


@contextmanager
def disk_full_explained() -> Iterator[None]:
    """Raise DiskFullError for temporary files that do not fit the disk."""
    try:
        yield
    except OSError as error:
        if error.errno in NO_ROOM:
            raise DiskFullError(NO_SPACE) from error
        raise


def explain(error: BaseException, log: Path | None = None) -> str:
    """Return one sentence for an exception that Spark raised; `log` is the file of what the JVM printed."""
    text = _text_of(error)
    for sign, sentence in (_PLAIN | _SETTINGS).items():
        if sign in text:
            return sentence
    if isinstance(error, GatewayError):
        return text
    if worker := last_python_error(text):
        return worker
    if FAILED_BARRIER in text:
        return NO_BARRIER
    if type(error).__module__.startswith("py4j") or isinstance(error, EOFError | ConnectionError):
        printed = error_line(log) if log and log.exists() else "it printed nothing"
        return _with_root(_cause(text), error) if _cause(text) else f"Spark ended unexpectedly: {printed}"
    return _with_root(_first_line(text) or type(error).__name__, error)


def last_python_error(text: str) -> str:
    """Return the message at the end of the first Python traceback in `text`; empty if there is none."""
    _, found, rest = text.partition("Traceback (most recent call last):")
    if not found:
        return ""
    for line in rest.splitlines():
        if line and not line[0].isspace() and (parts := re.match(r"([\w.]+)(?:: (.*))?$", line)):
            kind, message = parts[1].rpartition(".")[2], parts[2] or ""
            if kind in _SENTENCES:
                return message
            if kind == "ModuleNotFoundError":
                return f"a worker's Python lacks a package that kdissect needs ({message}): {PYTHON_ADVICE}"
            if kind in _UNREADABLE:
                return (
                    f"a worker cannot read a capture ({message}): captures must lie where "
                    "every executor sees them"
                )
            if "PYTHON_VERSION_MISMATCH" in message:
                return f"a worker's Python is of another version than this one: {PYTHON_ADVICE}"
            return f"a worker failed ({f'{kind}: {message}'.rstrip(': ')}); {DEBUGGING}"
    return ""


def _text_of(error: BaseException) -> str:
    java = getattr(error, "java_exception", None)
    try:
        return "\n".join(_causes(java)) if java is not None else str(error)
    except Exception:  # noqa: BLE001 - the JVM may be gone by now
        return str(error.args[0]) if error.args else ""


def _first_line(text: str) -> str:
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return _SPARK_NOISE.sub("", first)


def _with_root(sentence: str, error: BaseException) -> str:
    """Return the sentence with the root cause of an exception of Java, if that adds something."""
    java = getattr(error, "java_exception", None)
    try:
        root = _first_line(deque(_causes(java), 1)[-1]) if java is not None else ""
    except Exception:  # noqa: BLE001 - as above
        root = ""
    return sentence if root in sentence else f"{sentence}: {root}"


def _causes(java: Any) -> Iterator[str]:
    """Return the text of an exception of Java, and of its causes."""
    for _ in range(MOST_CAUSES):
        if java is None:
            return
        yield str(java.toString())
        java = java.getCause()


def _cause(text: str) -> str:
    first = next(
        (line.strip() for line in text.splitlines() if re.match(r"[\w.$]+(Exception|Error): ", line.strip())),
        "",
    )
    return _SPARK_NOISE.sub("", first)
