"""`kdissect replay try` on a broker, and what `plan` says of topics that `prepare` would create."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kdissect.cli.arguments import parse
from kdissect.cli.replay import replay
from kdissect.errors import ExitCode, UserError
from tests.helpers.conversations import CAPTURES
from tests.lab.mock import MockCluster
from tests.replay.conftest import SecuredCluster
from tests.replay.reading import read_all


def test_a_plan_shows_the_load_with_what_prepare_would_create(capfd: pytest.CaptureFixture[str]) -> None:
    with MockCluster(1) as mock:
        command = ["replay", "plan", str(CAPTURES / "steady.pcapng"), "--target", mock.bootstrap]
        assert replay(parse([*command, "--format", "json", "--allow-lossy"])) == ExitCode.DONE
    plan = json.loads(capfd.readouterr().out)
    assert plan["apis"]["Produce"]["sent"] > 0
    assert plan["load"]["bytes"] > 0
    assert any("missing on the target" in line for line in plan["warnings"])
    assert plan["settings"]["groups"] == "full"
    assert any(line.startswith("consumer groups: members join") for line in plan["warnings"])


@pytest.mark.slow
def test_a_target_that_cannot_create_topics_says_so() -> None:
    with MockCluster(1) as mock:
        command = ["replay", "try", str(CAPTURES / "transactions.pcapng"), "--target", mock.bootstrap]
        with pytest.raises(UserError, match="could not be created: the target has no CreateTopics"):
            replay(parse([*command, "--allow-lossy"]))


@pytest.mark.slow
def test_topics_that_cannot_be_prepared_are_the_user_s_to_create(capfd: pytest.CaptureFixture[str]) -> None:
    with MockCluster(1) as mock:
        command = ["replay", "prepare", str(CAPTURES / "transactions.pcapng"), "--target", mock.bootstrap]
        assert replay(parse([*command, "--execute", "--allow-lossy"])) == ExitCode.USER_ERROR
    told = capfd.readouterr().out.splitlines()
    assert len(told) == 3
    assert all("the target has no CreateTopics" in line for line in told)


@pytest.mark.broker
def test_one_command_does_all(
    target: SecuredCluster, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    command = ["replay", "try", str(CAPTURES / "steady.pcapng"), "--target", target.bootstrap.split(",")[0]]
    more = ["--name", "first", "--pace", "think", "--out", str(tmp_path / "run"), "--format", "json"]
    assert replay(parse([*command, *more])) == ExitCode.DONE
    told = capfd.readouterr()
    report = json.loads(told.out)
    assert report["verdict"] == "pass"
    assert "topics created: 4" in told.err
    assert (tmp_path / "run" / "run.json").exists()
    assert len(read_all(target.bootstrap, ["try-first-orders"])["try-first-orders"]) > 100
