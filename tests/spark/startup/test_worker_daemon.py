"""The program that Spark starts for Python workers: it hands over, or loads and serves itself."""

from pathlib import Path

import pytest

from kdissect.spark.startup import worker_daemon
from kdissect.spark.startup.hand_over import ADDRESS


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    made: list[str] = []
    monkeypatch.setattr(
        "kdissect.spark.startup.block_unused.block_unused", lambda: made.append("block_unused")
    )
    monkeypatch.setattr(
        "kdissect.spark.startup.prefork.preload",
        lambda kernels: made.append("preload all" if kernels else "preload"),
    )
    monkeypatch.delenv(ADDRESS, raising=False)
    monkeypatch.setattr("pyspark.daemon.manager", lambda: made.append("serve"))
    return made


def test_a_child_that_took_over_leaves_nothing_to_do(
    calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_daemon, "hand_over", lambda: True)
    worker_daemon.main()
    assert calls == []


def test_otherwise_it_loads_and_serves(calls: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_daemon, "hand_over", lambda: False)
    worker_daemon.main()
    assert calls == ["block_unused", "preload all", "serve"]


def test_a_daemon_beside_a_child_loads_no_kernels(
    calls: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(worker_daemon, "hand_over", lambda: False)
    monkeypatch.setenv(ADDRESS, str(tmp_path / "standby"))
    worker_daemon.main()  # no child was forked
    assert calls == ["block_unused", "preload all", "serve"]
    (tmp_path / "standby").touch()
    calls.clear()
    worker_daemon.main()
    assert calls == ["block_unused", "preload", "serve"]


def test_pandas_is_hidden_only_if_the_shortcut_is_on(
    calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_daemon, "hand_over", lambda: False)
    monkeypatch.setenv("KDISSECT_STARTUP", "plain")
    worker_daemon.main()
    assert calls == ["preload all", "serve"]
