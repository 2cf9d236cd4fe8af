"""`replay.engine.standalone`, against librdkafka's mock cluster."""

from __future__ import annotations

import pytest

from kdissect.protocol.api_keys import ApiKey
from kdissect.replay.disposition import Disposition, SkipRequest
from kdissect.replay.effects import Coroutine, Part, ask_one
from kdissect.replay.engine.standalone import run_standalone
from kdissect.replay.load.captured_cluster import CapturedCluster
from kdissect.replay.safety import AbortRun, Admission
from kdissect.replay.settings import ReplaySettings
from kdissect.replay.target.cluster import TargetCluster
from tests.lab.mock import MockCluster


def test_a_question_is_answered_and_what_fails_is_raised() -> None:
    def brokers() -> Coroutine[int]:
        answer = yield from ask_one(Part(ApiKey.METADATA, 1, {"topics": []}))
        return len(answer.body["brokers"])

    def hopeless() -> Coroutine[int]:
        yield from brokers()
        raise SkipRequest(Disposition.DEPENDENCY, "no coordinator")

    with MockCluster(2) as mock:
        settings = ReplaySettings((("127.0.0.1", mock.ports[0]),))
        cluster = TargetCluster(Admission(settings, CapturedCluster()))
        assert run_standalone(settings, cluster, brokers()) == 2
        with pytest.raises(AbortRun, match="no coordinator"):
            run_standalone(settings, cluster, hopeless())
