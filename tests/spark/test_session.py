"""The settings of an engine, and its life from start to close."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from kdissect.spark import session
from kdissect.spark.session import OWN_SECRET_SETTINGS, Engine, SparkSettings
from kdissect.spark.startup.class_data_sharing import ArchiveUse
from kdissect.streams.tls.keylog import KeyLog


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


@pytest.mark.parametrize(
    ("master", "known", "is_set"),
    [
        ("yarn", {}, OWN_SECRET_SETTINGS),
        ("k8s://https://cluster:6443", {}, OWN_SECRET_SETTINGS),
        ("yarn", {"spark.authenticate": "false"}, OWN_SECRET_SETTINGS[1:]),
        ("yarn", {"spark.shuffle.service.enabled": "true"}, ()),
        ("spark://host:7077", {}, ()),
        ("local[2]", {}, ()),
    ],
)
def test_clusters_that_make_secrets_authenticate_and_encrypt(
    master: str, known: dict[str, str], is_set: tuple[str, ...]
) -> None:
    """Check that the user's settings stay, also on a cluster whose operators choose the secret."""
    assert SparkSettings(master).secret_confs(known.get) == dict.fromkeys(is_set, "true")


@pytest.mark.parametrize("authenticates", ["true", "false", None])
def test_secrets_for_a_cluster_that_does_not_authenticate_come_with_a_notice(
    authenticates: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    engine = Engine(SparkSettings("spark://host:7077", notice=said.append))
    conf = SimpleNamespace(get={"spark.authenticate": authenticates}.get)
    monkeypatch.setattr(engine, "context", lambda: SimpleNamespace(getConf=lambda: conf))
    try:
        engine.share_keys(KeyLog())
        assert not said
        keys = KeyLog({b"random": {"CLIENT_RANDOM": b"secret"}})
        assert engine.share_keys(keys) is keys
        assert [line for line in said if "does not authenticate" in line] == said
        assert len(said) == (authenticates != "true")
    finally:
        engine.close()


def test_a_jvm_that_records_is_awaited_only_if_its_memory_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    for needs_memory in (False, True):
        engine, steps = Engine(SparkSettings("local[1]")), []
        process = SimpleNamespace(pid=1, wait=lambda seconds, steps=steps: steps.append("wait"))
        engine._gateway = SimpleNamespace(process=process, end=lambda steps=steps: steps.append("end"))
        engine._archive = SimpleNamespace(
            use=ArchiveUse.RECORD,
            path=Path("archive"),
            keep_in_background=lambda jvm, steps=steps: steps.append("keep"),
            release=lambda: None,
        )
        engine._context = object()
        engine.rest(needs_memory=needs_memory)
        engine.close()
        assert steps == ["end", "keep", *(["wait"] if needs_memory else [])]


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
