"""`replay.create_topics`, against a target on paper."""

from __future__ import annotations

from contextlib import closing

import pytest

from kdissect.protocol.api_keys import ApiKey
from kdissect.replay.create_topics import (
    CREATED,
    NOT_SETTLED,
    CreatedTopic,
    MissingTopic,
    assume_created,
    create_topics,
    missing_topics,
)
from kdissect.replay.disposition import SkipRequest
from kdissect.replay.effects import Coroutine
from kdissect.replay.engine.run import Replay
from kdissect.replay.handlers.replay_context import ReplayContext
from kdissect.replay.settings import ReplaySettings
from kdissect.replay.target.discover import LEADERLESS_S
from tests.helpers.paper_metadata import (
    NEVER,
    TOPIC,
    Lagging,
    S,
    do,
    nothing,
)
from tests.helpers.recorded import CAPTURES


@pytest.mark.parametrize(("knows_ns", "outcome"), [(5 * S, CREATED), (NEVER, NOT_SETTLED)])
def test_preparing_ends_when_every_node_knows_what_was_created(knows_ns: int, outcome: str) -> None:
    paper = Lagging(nothing, knows_ns={1: 0, 2: knows_ns})

    def prepare(context: ReplayContext) -> Coroutine[list[CreatedTopic]]:
        yield from context.leaders.learn_topics([])
        return (yield from create_topics(context, [MissingTopic(TOPIC, 1, 1)]))

    made, _ = do(paper, prepare)
    assert [each.outcome for each in made] == [outcome]
    assert paper.now_ns >= min(knows_ns, LEADERLESS_S * S)


@pytest.mark.slow
@pytest.mark.parametrize(("allowed", "missing"), [((), True), ((ApiKey.CREATE_TOPICS,), False)])
def test_what_the_run_itself_creates_is_not_prepared(allowed: tuple[int, ...], missing: bool) -> None:
    settings = ReplaySettings(target=(("127.0.0.1", 1),), allowed_apis=frozenset(allowed))
    with closing(Replay(settings, [str(CAPTURES / "cluster-life.pcapng")])) as replay:
        assert ("replay-orders" in [topic.name for topic in missing_topics(replay)]) == missing


def test_what_will_be_created_has_an_id_in_a_plan() -> None:
    captured_id = b"captured by id.."

    def plan(context: ReplayContext) -> Coroutine[tuple[set[str], bytes]]:
        context.names.captured_ids[captured_id] = "orders"
        with pytest.raises(SkipRequest, match="is not on the target"):
            context.names.topic_id(captured_id)
        assert not assume_created(context, ())
        present = assume_created(context, [MissingTopic(TOPIC, 1, 1)])
        yield from context.leaders.learn_topics([])
        return present, context.names.topic_id(captured_id)

    known, _ = do(Lagging(nothing, knows_ns={1: 0}), plan)
    assert known == ({TOPIC}, captured_id)
