"""The base of errors that the user can put right, and the one table of exit codes."""

import errno
from importlib import import_module
from pathlib import Path

import pytest

import kdissect
from kdissect.cli.main import main
from kdissect.errors import ExitCode, OutputError, UsageError, UserError

PACKAGE = Path(kdissect.__file__).parent


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.EACCES, "permission denied"),
        (errno.EEXIST, "not a directory"),
        (errno.ENOTDIR, "not a directory"),
        (errno.ENOSPC, "no space left on device"),
    ],
)
def test_the_reason_of_an_output_that_cannot_be_written(number: int, reason: str) -> None:
    error = OSError(number, __import__("os").strerror(number))
    assert str(OutputError.of("reports", error)) == f"cannot write to reports: {reason}"


def test_a_user_error_is_one_sentence_and_exit_code_2(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def refuse(_arguments: object) -> int:
        raise UsageError("this cannot be served")

    monkeypatch.setattr("kdissect.cli.schema.schema", refuse)
    assert main(["schema"]) == ExitCode.USER_ERROR == 2
    assert capfd.readouterr().err == "kdissect: this cannot be served\n"


def test_any_other_exception_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail(_arguments: object) -> int:
        raise TypeError("a defect")

    monkeypatch.setattr("kdissect.cli.schema.schema", fail)
    assert main(["schema"]) == ExitCode.FAILED == 70
    assert capfd.readouterr().err == "kdissect: a defect\n"


@pytest.mark.parametrize(
    "name",
    [
        "capture.formats.file_types:InputError",
        "limits:LimitsError",
        "spark.startup.java:JavaMissingError",
        "spark.connect:ConnectError",
        "spark.failures:DiskFullError",
        "startup_switch:StartupSwitchError",
        "cli.context:NothingToReportError",
    ],
)
def test_what_users_can_put_right_is_recognised_by_its_class(name: str) -> None:
    module, _, cls = name.partition(":")
    assert issubclass(getattr(import_module(f"kdissect.{module}"), cls), UserError)
