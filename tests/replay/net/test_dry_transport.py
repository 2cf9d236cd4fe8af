"""`replay.net.dry_transport`: what is sent is answered in memory, in order, by no socket."""

from __future__ import annotations

from kdissect.protocol.api_keys import ApiKey
from kdissect.replay.effects import Coroutine, Part, ask
from kdissect.replay.engine.standalone import run_standalone
from kdissect.replay.settings import DRY_TARGET
from kdissect.replay.target.cluster import TargetCluster
from tests.helpers.paper_target import Anywhere, settings


def test_requests_are_answered_in_their_order() -> None:
    asked = settings(target=(DRY_TARGET,), dry_partitions=3)
    cluster = TargetCluster(Anywhere())

    def questions() -> Coroutine[list[int]]:
        topics = [{"topics": [{"name": name}]} for name in ("a", "b")]
        answers = yield from ask([Part(ApiKey.METADATA, 8, each) for each in topics], synthetic=True)
        assert [each.body["topics"][0]["name"] for each in answers] == ["a", "b"]
        return [len(each.body["topics"][0]["partitions"]) for each in answers]

    assert run_standalone(asked, cluster, questions()) == [3, 3]
    assert cluster.versions
