"""How each kind of captured request is replayed: a course for each API key, and a plain one for all others.

A course is given the stage, the item, and its own copy of the decoded request, which it may change. It yields steps (see
`steps`), ends with the answers that count for the captured request, and raises `Refused` to skip it.
"""

from collections.abc import Callable

from kdissect.replay.courses import (
    fetch,
    groups,
    heartbeats,
    offsets,
    plain,
    produce,
    reads,
    shares,
    transactions,
)
from kdissect.replay.courses.stage import Stage
from kdissect.replay.loading.items import Item
from kdissect.replay.rewriting.roles import Tree
from kdissect.replay.steps import Course

COURSES: dict[int, Callable[[Stage, Item, Tree], Course]] = {
    0: produce.produce,
    1: fetch.fetch,
    2: reads.list_offsets,
    3: reads.metadata,
    8: offsets.commit,
    9: offsets.fetch_committed,
    11: groups.join,
    12: groups.heartbeat,
    13: groups.leave,
    14: groups.sync,
    23: reads.leader_epochs,
    22: transactions.init_producer_id,
    24: transactions.add_partitions,
    25: transactions.add_offsets,
    26: transactions.end,
    28: transactions.commit_offsets,
    68: heartbeats.heartbeat,
    76: heartbeats.heartbeat,
    78: shares.fetch,
    79: shares.acknowledge,
}


def course_of(stage: Stage, item: Item, body: Tree) -> Course:
    """Give the course of a captured request."""
    return COURSES.get(item.request.key, plain.plain)(stage, item, body)
