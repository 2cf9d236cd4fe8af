"""Runs `attacked_ports` in a Python of its own, since its Spark has settings of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.command import environment

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


def test_another_user_gets_nothing_at_the_ports_of_a_run() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/spark/attacked_ports.py"],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    assert " passed" in done.stdout
    if os.geteuid() == 0:  # only root can play another user
        assert "skipped" not in done.stdout
