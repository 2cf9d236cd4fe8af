"""An engine, from start to close."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from kdissect.spark import session
from kdissect.spark.session import Engine
from kdissect.spark.spark_settings import SparkSettings
from kdissect.spark.startup.class_data_sharing import ArchiveUse
from kdissect.streams.tls.keylog import KeyLog


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
