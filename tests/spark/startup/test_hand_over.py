"""The daemon that Spark starts hands over only to a child that answers, and imports little for it."""

import subprocess
import sys
from pathlib import Path

import pytest

from kdissect.spark.startup.hand_over import ADDRESS, hand_over

HEAVY = ("numpy", "pyarrow", "numba", "pyspark", "kdissect.jit", "typing", "json", "pathlib", "socket", "re")


def test_without_an_address_nothing_is_handed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ADDRESS, raising=False)
    assert not hand_over()


def test_nobody_at_the_address_means_that_the_daemon_works_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ADDRESS, str(tmp_path / "nobody"))
    assert not hand_over()


def test_what_hands_over_loads_nothing_heavy() -> None:
    program = "import sys, kdissect.spark.startup.worker_daemon; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not set(HEAVY) & set(done.stdout.split())
