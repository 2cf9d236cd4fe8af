"""Engines without a Spark of their own clean up after themselves."""

from pathlib import Path

import pytest

from kdissect.spark.scratch_engine import ScratchEngine
from kdissect.spark.spark_settings import SparkSettings
from kdissect.streams.tls.keylog import KeyLog


class RestingEngine(ScratchEngine):
    rested = 0

    def rest(self, needs_memory: bool = False) -> None:
        self.rested += 1
        assert self.temporary.exists()


def test_the_end_of_an_engine(tmp_path: Path) -> None:
    undone = []
    with RestingEngine(SparkSettings()) as engine:
        engine.afterwards.callback(undone.append, "afterwards")
        (engine.temporary / "file").touch()
        assert engine.reading_stop(tmp_path) is None
        assert engine.share_keys(keys := KeyLog()) is keys
    assert (engine.rested, undone, engine.temporary.exists()) == (1, ["afterwards"], False)


def test_an_engine_that_fails_to_rest_leaves_no_files() -> None:
    class Failing(ScratchEngine):
        def rest(self, needs_memory: bool = False) -> None:
            raise OSError("no room")

    with pytest.raises(OSError, match="no room"), Failing(SparkSettings()) as engine:
        pass
    assert not engine.temporary.exists()
