"""Secrets come from files, the environment or the terminal, and what looks like one in an argument is
refused.
"""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from kdissect.cli.arguments import parse
from kdissect.cli.replay import settings_of
from kdissect.cli.secret_sources import read_secret, secret_among
from kdissect.errors import UsageError
from kdissect.replay.settings import Credentials, ReplaySettings, Tls
from kdissect.tables.anonymize import Pseudonyms
from tests.helpers.command import environment

SECRET = "hunter2-and-more"
VARIABLE = "KDISSECT_TEST_SECRET"


def private(path: Path, text: str, mode: int = 0o600) -> str:
    path.write_text(text)
    path.chmod(mode)
    return str(path)


@pytest.mark.parametrize(
    "arguments",
    [
        ["analyze", "a.pcap", "--anonymize-key", SECRET],
        ["analyze", "a.pcap", f"--anonymize-key={SECRET}"],
        ["analyze", "a.pcap", "--anonymize-k", SECRET],
        ["replay", "run", "a.pcap", "--target", "b:1", "--password", SECRET],
        ["replay", "run", "a.pcap", "--target", "b:1", f"--passw={SECRET}"],
        ["replay", "run", "a.pcap", "--target", "b:1", "--sasl-password", SECRET],
        ["replay", "run", "a.pcap", "--target", "b:1", "--passwd", SECRET],
        ["replay", "run", "a.pcap", "--target", "b:1", f"--secret={SECRET}"],
        ["replay", "run", "a.pcap", "--target", "b:1", "--tls-key-password", SECRET],
        ["analyze", f"s3://key:{SECRET}@bucket/a.pcap"],
        ["analyze", "a.pcap", f"--out=s3://key:{SECRET}@bucket/out"],
        ["analyze", "a.pcap", "--spool", f"hdfs://me:{SECRET}@host/spool"],
        ["analyze", "a.pcap", "--remote", f"sc://host:15002/;token={SECRET}"],
        ["analyze", "a.pcap", f"--master=sc://host:15002/;use_ssl=true;TOKEN={SECRET}"],
    ],
)
def test_a_secret_among_the_arguments_is_refused_and_not_repeated(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The attacker reads the arguments of all processes, and what they print into logs."""
    with pytest.raises(SystemExit) as ended:
        parse(arguments)
    assert ended.value.code == 2
    output = capsys.readouterr()
    assert SECRET not in output.out + output.err
    assert output.err.count("\n") == 1


@pytest.mark.parametrize(
    "argument",
    [
        "s3://bucket/a:b@c.pcap",
        "hdfs://host:8020/x",
        "sc://host:15002",
        "--anonymize",
        "--sasl",
        "--tls-ca",
        "a@b",
    ],
)
def test_what_is_no_secret_is_not_refused(argument: str) -> None:
    assert secret_among([argument]) == ""


def test_a_file_goes_before_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "from the environment")
    warnings: list[str] = []
    file = private(tmp_path / "secret", f"{SECRET}\r\nsecond line\n")
    assert read_secret("password", file, VARIABLE, warnings.append) == SECRET
    assert read_secret("password", None, VARIABLE, warnings.append) == "from the environment"
    monkeypatch.delenv(VARIABLE)
    assert read_secret("password", None, VARIABLE, warnings.append) is None
    assert warnings == []


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644])
def test_a_file_that_others_may_read_is_named(tmp_path: Path, mode: int) -> None:
    warnings: list[str] = []
    file = private(tmp_path / "secret", SECRET, mode)
    assert read_secret("password", file, VARIABLE, warnings.append) == SECRET
    assert len(warnings) == 1
    assert SECRET not in warnings[0]


def test_a_file_that_has_no_secret_is_refused(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    for name, text in (("missing", None), ("empty", ""), ("blank", "\nsecond"), ("binary", None)):
        if text is not None:
            private(tmp_path / name, text)
        with pytest.raises(UsageError):
            read_secret("password", str(tmp_path / name), VARIABLE, lambda _: None)


def test_the_terminal_is_asked_and_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = pty.openpty()
    program = (
        "import fcntl, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"
        "from kdissect.cli.secret_sources import read_secret\n"
        f"assert read_secret('password', '-', 'X', print) == {SECRET!r}\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        env=environment(),
    )
    os.close(theirs)
    shown = b""
    while b"password: " not in shown:
        shown += os.read(ours, 1000)
    os.write(ours, f"{SECRET}\n".encode())
    assert process.wait(60) == 0
    shown += os.read(ours, 1000)
    assert SECRET.encode() not in shown
    os.close(ours)


def test_without_a_terminal_nobody_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_terminal(*_: object) -> int:
        raise OSError(6, "No such device or address")

    monkeypatch.setattr("kdissect.cli.secret_sources.os.open", no_terminal)
    with pytest.raises(UsageError, match="there is no terminal"):
        read_secret("password", "-", VARIABLE, lambda _: None)


def asked(*more: str, target: str = "kafka.test:9092") -> ReplaySettings:
    return settings_of(parse(["replay", "plan", "a.pcap", "--target", target, *more]))


@pytest.mark.parametrize(
    "option", [["--tls"], ["--tls-ca", "ca.pem"], ["--tls-cert", "me.pem"], ["--insecure"]]
)
def test_every_option_of_tls_means_tls(option: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Before, `--tls-cert` alone spoke plaintext, and the attacker on the network read the password."""
    monkeypatch.setenv("KDISSECT_SASL_PASSWORD", SECRET)
    settings = asked(*option, "--sasl", "PLAIN", "--user", "me")
    assert settings.tls is not None
    assert SECRET not in repr(settings)


def test_a_login_without_tls_needs_permission(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KDISSECT_SASL_PASSWORD", SECRET)
    login = ("--sasl", "SCRAM-SHA-256", "--user", "me")
    with pytest.raises(UsageError, match="unencrypted: use --tls, or --plaintext-credentials"):
        asked(*login)
    with pytest.raises(UsageError, match=r"kafka\.test:9093 unencrypted"):
        asked(*login, target="localhost:9092,kafka.test:9093")
    assert asked(*login, "--plaintext-credentials").tls is None
    for target in ("localhost:9092", "127.0.0.1:9092", "[::1]:9092"):
        assert asked(*login, target=target).credentials is not None


def test_the_password_of_the_key_comes_from_a_file_or_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = private(tmp_path / "secret", SECRET)
    with pytest.raises(UsageError, match="needs --tls-cert"):
        asked("--tls", "--tls-key-password-file", file)
    settings = asked("--tls-cert", "me.pem", "--tls-key-password-file", file)
    assert settings.tls == Tls(None, "me.pem", False, SECRET)
    monkeypatch.setenv("KDISSECT_TLS_KEY_PASSWORD", SECRET)
    assert asked("--tls-cert", "me.pem").tls == settings.tls


def test_nothing_that_has_a_secret_shows_it() -> None:
    """The attacker reads logs and tracebacks."""
    shown = [Credentials("PLAIN", "me", SECRET), Tls(key_password=SECRET), Pseudonyms.new(SECRET)]
    assert all(SECRET not in repr(each) for each in shown)
    assert repr(Pseudonyms(b"the key")) == "Pseudonyms()"
