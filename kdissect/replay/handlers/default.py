"""The course of a request that needs no more than the target's values, a version and a node."""

from kdissect.replay.effects import Ask, Course
from kdissect.replay.handlers.replay_context import ReplayContext
from kdissect.replay.load.analysis import ReplayItem
from kdissect.replay.rewrite.roles import Tree


def plain(stage: ReplayContext, item: ReplayItem, body: Tree) -> Course:
    """Rewrite, convert, route, ask."""
    version = stage.version(item)
    body = stage.carried(item, body, version)
    parts = yield from stage.parts(item, version, body)
    answers = yield Ask(tuple(parts))
    stage.heed(answers)
    return list(answers)
