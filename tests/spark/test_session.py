"""An engine, from start to close."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from kdissect.spark import session
from kdissect.spark.session import Engine
from kdissect.spark.spark_settings import SparkSettings
from kdissect.spark.startup.jvm import JavaEndedError
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


@pytest.mark.parametrize(
    ("finished", "ran", "makes", "told"),
    [(True, True, True, 1), (True, True, False, 0), (False, True, True, 0), (True, False, True, 0)],
)
def test_a_run_that_has_finished_lets_classes_be_stored(
    finished: bool, ran: bool, makes: bool, told: int
) -> None:
    said: list[str] = []
    engine = Engine(SparkSettings("local[1]", notice=said.append))
    steps: list[str] = []
    engine._gateway = SimpleNamespace(stop=lambda: steps.append("stop"), end=lambda: steps.append("end"))
    engine._archive = SimpleNamespace(make_in_background=lambda: steps.append("make") or makes)
    engine._has_run = ran
    engine.rest()
    engine.close(finished=finished)
    assert steps == ["stop", "end", *(["make"] if finished and ran else [])]
    assert [line for line in said if "first run" in line] == said
    assert len(said) == told


@pytest.mark.parametrize("ended_by_us", [True, False])
def test_a_jvm_that_was_ended_while_it_started_costs_no_archive(
    ended_by_us: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, steps = Engine(SparkSettings("local[1]")), []

    def address() -> tuple[int, str]:
        if ended_by_us:
            engine.rest()
        raise JavaEndedError("Java ended")

    def start_again(*_: object) -> object:
        steps.append("start again")
        return SimpleNamespace(address=address, stop=lambda: None, end=lambda: None)

    engine._gateway = SimpleNamespace(
        address=address, launch=None, stop=lambda: steps.append("stop"), end=lambda: steps.append("end")
    )
    engine._archive = SimpleNamespace(is_mapped=True, discard=lambda: steps.append("discard"))
    monkeypatch.setattr(session, "JvmGateway", start_again)
    with pytest.raises(JavaEndedError):
        engine._connect()
    engine.close()
    assert steps == (["stop", "end"] if ended_by_us else ["discard", "start again"])


def test_every_shortcut_of_an_engine_can_be_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KDISSECT_STARTUP", "-class_data_sharing,-local_scan,-early_context")
    monkeypatch.setattr(session, "JvmGateway", lambda *_: None)
    engine = Engine.start(SparkSettings("local[1]", cache=tmp_path))
    try:
        assert engine._archive is None
        assert not engine.may_be_helped
        assert not list(tmp_path.iterdir())
    finally:
        engine.close()
    assert not engine.home.exists()
