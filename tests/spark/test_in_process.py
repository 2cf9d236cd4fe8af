"""Runs without Spark: when they are chosen, and that the report is the one that Spark's tasks make."""

from pathlib import Path

import pytest

from kdissect.spark.in_process import InProcessEngine, runs_in_process
from kdissect.spark.spark_settings import SparkSettings
from kdissect.spark.startup.java import JavaMissingError
from kdissect.startup_switch import STARTUP_VARIABLE
from kdissect.streams.tls.keylog import KeyLog
from tests.helpers.command import WITHOUT_SPARK, kdissect
from tests.helpers.tiers import thorough_after

CAPTURES = Path(__file__).parents[2] / "captures"
SMALL = str(CAPTURES / "pause.pcapng")


def test_only_small_captures_if_switched_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(STARTUP_VARIABLE, raising=False)
    assert not runs_in_process(SparkSettings(), [SMALL])
    monkeypatch.setenv(STARTUP_VARIABLE, "+in_process")
    assert runs_in_process(SparkSettings(), [SMALL])
    assert not runs_in_process(SparkSettings("local[2]"), [SMALL])
    assert not runs_in_process(SparkSettings(), ["-"])
    large = tmp_path / "large.pcap"
    with large.open("wb") as file:
        file.truncate(100 << 20)
    assert not runs_in_process(SparkSettings(), [SMALL, str(large)])


def test_the_engine_keeps_its_files_until_it_is_closed() -> None:
    with InProcessEngine(SparkSettings()) as engine:
        engine.build()
        assert engine.is_up()
        assert engine.context().cores == 1
        assert engine.share_keys(keys := KeyLog()) is keys
        (engine.temporary / "file").touch()
        engine.rest()
        with pytest.raises(TypeError, match="without Spark"):
            engine.session()
    assert not engine.temporary.exists()


def test_java_is_asked_for_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise JavaMissingError("Java was not found")

    monkeypatch.setattr("kdissect.spark.in_process.find_java", missing)
    with pytest.raises(JavaMissingError):
        InProcessEngine.start(SparkSettings())


@pytest.mark.spark
@pytest.mark.parametrize(
    "command",
    thorough_after(
        1,
        [
            ["analyze", CAPTURES / "rebalances.pcapng", "--topic", "*", "--format", "json"],
            ["analyze", CAPTURES / "tls.pcapng", "--full"],
        ],
    ),
)
def test_the_report_is_that_of_spark(command: list[object]) -> None:
    here, spark = kdissect(*command, **WITHOUT_SPARK), kdissect(*command)
    assert (here.returncode, spark.returncode) == (0, 0)
    assert here.stdout == spark.stdout
    assert len(here.stdout) > 1000
