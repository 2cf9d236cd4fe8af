"""Failures of Spark in one sentence."""

import socket
from pathlib import Path
from typing import Any

import pytest

from kdissect.errors import ExitCode, UserError
from kdissect.spark.failures import (
    AUTHENTICATION,
    DEBUGGING,
    NO_MASTER,
    PYTHON_ADVICE,
    DiskFullError,
    explain,
    job_error,
    last_python_error,
)
from tests.helpers import recorded
from tests.helpers.command import kdissect

WORKER = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "worker.py", line 1, in main
    process()
    ~~~~~~~^^
{line}

\tat org.apache.spark.api.python.BasePythonRunner
Caused by: something else
"""


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("ValueError: no such split", f"a worker failed (ValueError: no such split); {DEBUGGING}"),
        ("kdissect.capture.inputs.InputError: a.pcap: permission denied", "a.pcap: permission denied"),
        ("kdissect.streams.payload_reader.CaptureChanged: a.pcap was changed", "a.pcap was changed"),
        (
            "ModuleNotFoundError: No module named 'numba'",
            (
                "a worker's Python lacks a package that kdissect needs (No module named 'numba'): "
                f"{PYTHON_ADVICE}"
            ),
        ),
        (
            "FileNotFoundError: [Errno 2] No such file or directory: 'a.pcap'",
            (
                "a worker cannot read a capture ([Errno 2] No such file or directory: 'a.pcap'): "
                "captures must lie where every executor sees them"
            ),
        ),
        (
            (
                "pyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] "
                "Python in worker has …"
            ),
            f"a worker's Python is of another version than this one: {PYTHON_ADVICE}",
        ),
        ("KeyboardInterrupt", f"a worker failed (KeyboardInterrupt); {DEBUGGING}"),
    ],
)
def test_the_workers_own_words(line: str, sentence: str) -> None:
    assert last_python_error(WORKER.format(line=line)) == sentence
    assert explain(RuntimeError(WORKER.format(line=line))) == sentence


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("job aborted: java.lang.OutOfMemoryError: Java heap space\n\tat x", "Spark ran out of memory"),
        (
            "x.ProcessLostError: a process that makes tables has died",
            "a worker process ended unexpectedly",
        ),
        (
            "java.io.IOException: No space left on device\n\tat x",
            "no space left on the disk of the output, or of temporary files",
        ),
        (
            "org.apache.spark.SparkException: Could not parse Master URL: 'x'\n\tat y",
            "Could not parse Master URL: 'x'",
        ),
    ],
)
def test_known_signs(text: str, sentence: str) -> None:
    assert explain(RuntimeError(text)).startswith(sentence)
    assert "\n" not in explain(RuntimeError(text))


class _Java:
    """An exception of Java's, as Py4J gives it."""

    def __init__(self, said: str, cause: "_Java | None" = None) -> None:
        self.toString, self.getCause = (lambda: said), (lambda: cause)


def test_what_an_exception_of_java_came_from_is_told() -> None:
    error: Any = RuntimeError()
    error.java_exception = _Java("x.SparkException: cannot start", _Java("y.IOException: no such host"))
    assert explain(error) == "cannot start: no such host"
    error.java_exception = _Java("x.SparkException: cannot start")  # type: ignore[attr-defined]
    assert explain(error) == "cannot start"


def test_a_full_disk_is_told_from_the_log_too(tmp_path: Path) -> None:
    log = tmp_path / "java.log"
    error = RuntimeError("Failed to create a temp directory after 10 attempts!")
    assert not isinstance(job_error(error, log), DiskFullError)
    log.write_text("ERROR: cannot make it\n")
    assert not isinstance(job_error(error, log), DiskFullError)
    log.write_text("ERROR: java.io.IOException: No space left on device\n")
    assert isinstance(job_error(error, log), DiskFullError)


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ("A secret key must be specified via the spark.authenticate.secret config", AUTHENTICATION),
        ("org.apache.spark.SparkException: All masters are unresponsive! Giving up.", NO_MASTER),
    ],
)
def test_settings_that_spark_cannot_work_with_can_be_put_right(said: str, sentence: str) -> None:
    error = job_error(RuntimeError(f"An error occurred.\n: java.lang.IllegalArgumentException: {said}"))
    assert isinstance(error, UserError)
    assert str(error) == sentence


def test_a_query_that_divides_by_zero_can_be_put_right() -> None:
    said = "[DIVIDE_BY_ZERO] Division by zero. Use `try_divide`. SQLSTATE: 22012"
    assert isinstance(job_error(RuntimeError(said)), UserError)
    assert not isinstance(job_error(RuntimeError("[OTHER] It failed. SQLSTATE: XX000")), UserError)


def test_what_spark_printed_before_it_ended_counts(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("ERROR StandaloneSchedulerBackend: All masters are unresponsive! Giving up.\n")
    assert str(job_error(RuntimeError("a file is gone"), log)) == NO_MASTER
    log.write_text("WARN something else\n")
    assert str(job_error(RuntimeError("a file is gone"), log)) == "a file is gone"


@pytest.mark.spark
def test_a_cluster_that_authenticates_without_a_secret_is_one_sentence(tmp_path: Path) -> None:
    """Spark refuses before it speaks to the master, so anything that listens serves."""
    (tmp_path / "spark-defaults.conf").write_text("spark.authenticate true\n")
    capture = recorded.CAPTURES / "steady.pcapng"
    with socket.create_server(("127.0.0.1", 0)) as server:
        master = f"spark://127.0.0.1:{server.getsockname()[1]}"
        done = kdissect("analyze", capture, "--master", master, SPARK_CONF_DIR=str(tmp_path))
    assert done.returncode == ExitCode.USER_ERROR
    assert done.stdout == ""
    assert done.stderr.splitlines()[-1] == f"kdissect: {AUTHENTICATION}"
