"""How each kind of captured request is replayed: a course for each API key, and a plain one for all others.

A course is given the stage, the item, and its own copy of the decoded request, which it may change. It yields steps (see
`steps`), ends with the answers that count for the captured request, and raises `SkipRequest` to skip it.
"""

from collections.abc import Callable

from kdissect.protocol.api_keys import (
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
from kdissect.replay.effects import Course
from kdissect.replay.handlers import (
    classic_groups,
    default,
    fetch,
    heartbeats,
    metadata,
    offset_commit,
    produce,
    share,
    transactions,
)
from kdissect.replay.handlers.replay_context import ReplayContext
from kdissect.replay.load.analysis import ReplayItem
from kdissect.replay.rewrite.roles import Tree

COURSES: dict[int, Callable[[ReplayContext, ReplayItem, Tree], Course]] = {
    PRODUCE: produce.produce,
    FETCH: fetch.fetch,
    LIST_OFFSETS: metadata.list_offsets,
    METADATA: metadata.metadata,
    OFFSET_COMMIT: offset_commit.commit,
    OFFSET_FETCH: offset_commit.fetch_committed,
    JOIN_GROUP: classic_groups.join,
    HEARTBEAT: classic_groups.heartbeat,
    LEAVE_GROUP: classic_groups.leave,
    SYNC_GROUP: classic_groups.sync,
    LEADER_EPOCHS: metadata.leader_epochs,
    INIT_PRODUCER_ID: transactions.init_producer_id,
    ADD_PARTITIONS: transactions.add_partitions,
    ADD_OFFSETS: transactions.add_offsets,
    END_TXN: transactions.end,
    TXN_COMMIT: transactions.commit_offsets,
    CONSUMER_HEARTBEAT: heartbeats.heartbeat,
    SHARE_HEARTBEAT: heartbeats.heartbeat,
    SHARE_FETCH: share.fetch,
    SHARE_ACKNOWLEDGE: share.acknowledge,
}


def course_of(stage: ReplayContext, item: ReplayItem, body: Tree) -> Course:
    """Give the course of a captured request."""
    return COURSES.get(item.request.key, default.plain)(stage, item, body)
