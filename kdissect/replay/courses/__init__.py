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
from kdissect.replay.keys import (
    ADD_OFFSETS,
    ADD_PARTITIONS,
    CONSUMER_HEARTBEAT,
    END_TXN,
    FETCH,
    HEARTBEAT,
    INIT_PRODUCER_ID,
    JOIN_GROUP,
    LEADER_EPOCHS,
    LEAVE_GROUP,
    LIST_OFFSETS,
    METADATA,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    PRODUCE,
    SHARE_ACKNOWLEDGE,
    SHARE_FETCH,
    SHARE_HEARTBEAT,
    SYNC_GROUP,
    TXN_COMMIT,
)
from kdissect.replay.loading.items import Item
from kdissect.replay.rewriting.roles import Tree
from kdissect.replay.steps import Course

COURSES: dict[int, Callable[[Stage, Item, Tree], Course]] = {
    PRODUCE: produce.produce,
    FETCH: fetch.fetch,
    LIST_OFFSETS: reads.list_offsets,
    METADATA: reads.metadata,
    OFFSET_COMMIT: offsets.commit,
    OFFSET_FETCH: offsets.fetch_committed,
    JOIN_GROUP: groups.join,
    HEARTBEAT: groups.heartbeat,
    LEAVE_GROUP: groups.leave,
    SYNC_GROUP: groups.sync,
    LEADER_EPOCHS: reads.leader_epochs,
    INIT_PRODUCER_ID: transactions.init_producer_id,
    ADD_PARTITIONS: transactions.add_partitions,
    ADD_OFFSETS: transactions.add_offsets,
    END_TXN: transactions.end,
    TXN_COMMIT: transactions.commit_offsets,
    CONSUMER_HEARTBEAT: heartbeats.heartbeat,
    SHARE_HEARTBEAT: heartbeats.heartbeat,
    SHARE_FETCH: shares.fetch,
    SHARE_ACKNOWLEDGE: shares.acknowledge,
}


def course_of(stage: Stage, item: Item, body: Tree) -> Course:
    """Give the course of a captured request."""
    return COURSES.get(item.request.key, plain.plain)(stage, item, body)
