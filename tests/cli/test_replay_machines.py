"""`kdissect replay run --master`: what is refused before Spark starts, and a run of a local Spark."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from kdissect.cli.arguments import parse
from kdissect.cli.main import main
from kdissect.cli.replay_machines import check_machines
from kdissect.errors import ExitCode, UsageError
from tests.helpers.command import COMMAND, environment
from tests.helpers.conversations import CAPTURES
from tests.helpers.null_target import null_target
from tests.helpers.replay_logs import make_log

RUN = ["replay", "run"]
TARGET = ["--target", "127.0.0.1:1", "--execute"]


@pytest.mark.slow
def test_only_a_replay_log_is_taken(tmp_path: Path) -> None:
    capture = str(CAPTURES / "steady.pcapng")
    with pytest.raises(UsageError, match="--master takes one replay log"):
        check_machines(parse([*RUN, capture, *TARGET, "--master", "local[2]"]))
    make_log([capture], tmp_path / "log")
    log = str(tmp_path / "log")
    check_machines(parse([*RUN, log, *TARGET, "--master", "spark://host:7077"]))
    with pytest.raises(UsageError, match="one replay log"):
        check_machines(parse([*RUN, log, log, *TARGET, "--master", "local[2]"]))
    check_machines(parse([*RUN, log, "--dry-target", "--execute", "--master", "local[2]"]))
    with pytest.raises(UsageError, match="a Spark Connect server cannot"):
        check_machines(parse([*RUN, log, *TARGET, "--master", "sc://host:15002"]))


@pytest.mark.parametrize("choice", ["stop", "continue"])
def test_only_a_run_with_a_master_has_workers_to_lose(
    choice: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [*RUN, str(CAPTURES / "steady.pcapng"), *TARGET]
    check_machines(parse(command))
    assert main([*command, "--lost-worker", choice]) == ExitCode.USER_ERROR
    assert "--lost-worker has no effect without --master" in capsys.readouterr().err


@pytest.mark.spark
@pytest.mark.slow
def test_a_local_spark_sends(tmp_path: Path) -> None:
    make_log([str(CAPTURES / "steady.pcapng")], tmp_path / "log")
    with null_target() as target:
        command = [*RUN, str(tmp_path / "log"), "--target", target, "--pace", "asap", "--execute", "--quiet"]
        command += ["--out", str(tmp_path / "run"), "--master", "local[2]", "--format", "json"]
        done = subprocess.run(
            [*COMMAND, *command],
            capture_output=True,
            text=True,
            check=False,
            env=environment(KDISSECT_JIT="0"),
        )
    assert done.returncode == ExitCode.CONDITION_MET, done.stderr  # this target has no records
    report = json.loads(done.stdout)
    assert report["accounting"]["captured"] == 1177
    assert [worker["lost"] for worker in report["run"]["workers"]] == ["", ""]
    assert {path.name for path in (tmp_path / "run").iterdir()} == {"run.json", "worker-0", "worker-1"}


@pytest.mark.spark
@pytest.mark.slow
def test_a_local_spark_sends_to_targets_in_memory(tmp_path: Path) -> None:
    make_log([str(CAPTURES / "steady.pcapng")], tmp_path / "log")
    command = [*RUN, str(tmp_path / "log"), "--dry-target", "--pace", "asap", "--execute", "--quiet"]
    command += ["--out", str(tmp_path / "run"), "--master", "local[2]"]
    done = subprocess.run(
        [*COMMAND, *command], capture_output=True, text=True, check=False, env=environment(KDISSECT_JIT="0")
    )
    assert done.returncode == ExitCode.DONE, done.stderr
    every, *workers = done.stdout.splitlines()
    counts = [int(line.split(": ")[-1].split()[0].replace(",", "")) for line in workers]
    assert len(counts) == 2
    assert all(counts)
    assert every.startswith(f"{sum(counts):,} requests sent to memory, ")
    assert not (tmp_path / "run").exists()
