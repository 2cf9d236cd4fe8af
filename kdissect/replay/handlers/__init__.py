"""How each kind of captured request is replayed: a course for each API key, and a plain one for all others.

A course is given the stage, the item, and its own copy of the decoded request, which it may change. It yields steps (see
`steps`), ends with the answers that count for the captured request, and raises `SkipRequest` to skip it.
"""

from collections.abc import Callable

from kdissect.protocol.api_keys import ApiKey
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
    ApiKey.PRODUCE: produce.produce,
    ApiKey.FETCH: fetch.fetch,
    ApiKey.LIST_OFFSETS: metadata.list_offsets,
    ApiKey.METADATA: metadata.metadata,
    ApiKey.OFFSET_COMMIT: offset_commit.commit,
    ApiKey.OFFSET_FETCH: offset_commit.fetch_committed,
    ApiKey.JOIN_GROUP: classic_groups.join,
    ApiKey.HEARTBEAT: classic_groups.heartbeat,
    ApiKey.LEAVE_GROUP: classic_groups.leave,
    ApiKey.SYNC_GROUP: classic_groups.sync,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: metadata.leader_epochs,
    ApiKey.INIT_PRODUCER_ID: transactions.init_producer_id,
    ApiKey.ADD_PARTITIONS_TO_TXN: transactions.add_partitions,
    ApiKey.ADD_OFFSETS_TO_TXN: transactions.add_offsets,
    ApiKey.END_TXN: transactions.end,
    ApiKey.TXN_OFFSET_COMMIT: transactions.commit_offsets,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: heartbeats.heartbeat,
    ApiKey.SHARE_GROUP_HEARTBEAT: heartbeats.heartbeat,
    ApiKey.SHARE_FETCH: share.fetch,
    ApiKey.SHARE_ACKNOWLEDGE: share.acknowledge,
}


def course_of(stage: ReplayContext, item: ReplayItem, body: Tree) -> Course:
    """Give the course of a captured request."""
    return COURSES.get(item.request.key, default.plain)(stage, item, body)
