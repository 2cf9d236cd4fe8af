"""The course of a request that needs no more than the target's values, a version and a node."""

from kdissect.replay.courses.stage import Stage
from kdissect.replay.loading.items import Item
from kdissect.replay.rewriting.roles import Tree
from kdissect.replay.steps import Ask, Course


def plain(stage: Stage, item: Item, body: Tree) -> Course:
    """Rewrite, convert, route, ask."""
    version = stage.version(item)
    body = stage.carried(item, body, version)
    parts = yield from stage.parts(item, version, body)
    answers = yield Ask(tuple(parts))
    stage.heed(answers)
    return list(answers)
