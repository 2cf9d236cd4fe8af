"""Spark's JVM: its command line, its environment and what it printed."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from kdissect.files import ScratchDirectory
from kdissect.spark.failures import (
    explain,
)
from kdissect.spark.startup.java import Java
from kdissect.spark.startup.jvm import (
    LOCAL_MAIN,
    SHORT_LIFE_OPTIONS,
    SUBMIT_MAIN,
    GatewayError,
    JvmGateway,
    JvmLaunch,
    error_line,
    spark_jars,
)


def test_a_jvm_that_died_is_quoted(tmp_path: Path) -> None:
    log = tmp_path / "java.log"
    log.write_text("starting\nError: could not reserve memory\nlast words\n")
    assert error_line(log) == "Error: could not reserve memory"
    assert explain(EOFError(), log) == "Spark ended unexpectedly: Error: could not reserve memory"
    assert explain(GatewayError("Java ended")) == "Java ended"
    log.write_text("")
    assert error_line(log) == "it printed nothing"
    log.write_bytes(b'Setting log level\nException in thread "main" x.Y: why\n\tat z\n\0\0\0')
    assert error_line(log) == 'Exception in thread "main" x.Y: why'


def launch(folder: Path, local: bool = True, **environment: str) -> JvmLaunch:
    java = Java(Path("/usr/bin/java"), "17.0.1")
    return JvmLaunch(
        java, folder, "768m", local, {"spark.master": "local[2]" if local else "yarn"}, environment
    )


def test_the_jvm_stays_in_the_session_and_gets_no_interrupt_of_it(tmp_path: Path) -> None:
    """`nice` slows it down as it does this process, and Ctrl-C goes to another group."""
    waits = tmp_path / "java"
    waits.write_text("#!/bin/sh\nread line\n")
    waits.chmod(0o700)
    gateway = JvmGateway(replace(launch(tmp_path), java=Java(waits, "17.0.1")), None)
    try:
        found = os.getsid(gateway.process.pid), os.getpgid(gateway.process.pid)
        assert found == (os.getsid(0), gateway.process.pid)
    finally:
        gateway.kill()


def test_a_directory_stays_until_its_jvm_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run was killed, and the next one finds its directory: the JVM needs it, or would never end."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    waits = tmp_path / "java"
    waits.write_text("#!/bin/sh\nread line\n")
    waits.chmod(0o700)
    killed = ScratchDirectory()
    started = replace(launch(killed.path), java=Java(waits, "17.0.1"), locks=(killed.lock,))
    gateway = JvmGateway(started, None)
    killed._lock.end()
    try:
        ScratchDirectory().end()
        assert killed.path.exists()
    finally:
        gateway.kill()
    ScratchDirectory().end()
    assert not killed.path.exists()


def test_a_local_run_starts_the_gateway_and_others_submit(tmp_path: Path) -> None:
    assert launch(tmp_path).command(None)[-1] == LOCAL_MAIN
    command = launch(tmp_path, local=False).command(None)
    assert command[command.index(SUBMIT_MAIN) :] == [
        SUBMIT_MAIN,
        "--conf",
        "spark.master=yarn",
        "pyspark-shell",
    ]


def test_without_the_shortcut_a_local_run_submits_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = launch(tmp_path).options()
    monkeypatch.setenv("KDISSECT_STARTUP", "-direct_jvm")
    assert SUBMIT_MAIN in launch(tmp_path).command(None)
    assert set(usual) - set(launch(tmp_path).options()) == set(SHORT_LIFE_OPTIONS)


def test_a_local_run_ignores_the_settings_of_another_spark(tmp_path: Path) -> None:
    there = {
        "SPARK_CONF_DIR": "/elsewhere",
        "PYSPARK_PYTHON": "python2",
        "SPARK_REMOTE": "sc://x",
        "HOME": "/home",
    }
    kept = launch(tmp_path, **there).child_environment()
    assert not {"SPARK_CONF_DIR", "PYSPARK_PYTHON", "SPARK_REMOTE", "SPARK_HOME"} & set(kept)
    assert kept["HOME"] == "/home"
    assert kept["ARROW_DEFAULT_MEMORY_POOL"] == "system"
    far = launch(tmp_path, local=False, **there).child_environment()
    assert far["SPARK_CONF_DIR"] == "/elsewhere"
    assert "SPARK_REMOTE" not in far
    assert far["SPARK_HOME"] == str(spark_jars()[0].parents[1])


def test_workers_import_nothing_from_the_working_directory(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('planted')")
    command = [sys.executable, "-m", "kdissect.spark.startup.worker_daemon", "no.such.module"]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=os.environ | launch(tmp_path).child_environment(),
        capture_output=True,
        check=False,
    )
    assert b"planted" not in done.stderr
    assert done.returncode != 0
