"""The settings of an engine, and its life from start to close."""

from pathlib import Path

import pytest

from kdissect.spark import session
from kdissect.spark.session import Engine, SparkSettings


@pytest.mark.parametrize(("master", "cores"), [("local", 1), ("local[3]", 3), ("local[4,2]", 4)])
def test_cores_of_a_local_run(master: str, cores: int) -> None:
    assert SparkSettings(master).cores == cores
    assert SparkSettings("local[*]").cores >= 1


@pytest.mark.parametrize(
    ("master", "local"), [("local", True), ("local[*]", True), ("yarn", False), ("spark://host:7077", False)]
)
def test_what_runs_on_this_machine(master: str, local: bool) -> None:
    settings = SparkSettings(master, confs={"spark.app.name": "mine"})
    assert settings.local is local
    confs = settings.spark_confs()
    assert (confs["spark.master"], confs["spark.app.name"]) == (master, "mine")
    assert ("spark.driver.bindAddress" in confs) is local


def test_every_shortcut_of_an_engine_can_be_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KDISSECT_STARTUP", "-class_data_sharing,-local_scan")
    monkeypatch.setattr(session, "JvmGateway", lambda *_: None)
    engine = Engine.start(SparkSettings("local[1]", cache=tmp_path))
    try:
        assert engine._archive is None
        assert not engine.may_be_helped
        assert not list(tmp_path.iterdir())
    finally:
        engine.close()
    assert not engine.home.exists()
