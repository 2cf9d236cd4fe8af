"""`kdissect replay load`: a log by the Spark job, which appears when it is complete."""

from __future__ import annotations

from pathlib import Path

import pytest

from kdissect.cli.arguments import parse
from kdissect.cli.replay import replay
from kdissect.errors import UsageError
from kdissect.replay.load.log_files import open_log
from kdissect.replay.load.log_requests import read_log
from kdissect.replay.load.requests import read
from kdissect.replay.load.spool import Spool
from tests.helpers.command import kdissect
from tests.helpers.recorded import CAPTURES

CAPTURE = CAPTURES / "steady.pcapng"


@pytest.mark.spark
def test_the_job_writes_the_requests_of_its_captures(tmp_path: Path) -> None:
    log = tmp_path / "deep" / "log"
    done = kdissect("replay", "load", CAPTURE, "--out", log, "--partitions", "3", "--split-bytes", "256k")
    assert done.returncode == 0, done.stderr
    assert "1,177 requests written to" in done.stderr
    direct, logged = Spool(), Spool()
    expected = read([str(CAPTURE)], (), str(tmp_path), direct)
    found = read_log(log, logged)
    assert [
        (each.first_ns, direct.get(each.frame), direct.get(each.response)) for each in expected.requests
    ] == [(each.first_ns, logged.get(each.frame), logged.get(each.response)) for each in found.requests]
    assert log.stat().st_mode & 0o077 == 0
    assert open_log(log).requests == len(found.requests)
    assert [each.name for each in log.parent.iterdir()] == ["log"]


def test_a_directory_that_exists_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="already exists; a replay log is never overwritten"):
        replay(parse(["replay", "load", "no-such.pcap", "--out", str(tmp_path)]))
