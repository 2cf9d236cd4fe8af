"""How each kind of captured request is replayed: a handler for each API key, and a default handler.

In: the `ReplayContext`, the item, and a decoded request of its own, which a handler may change. Out: the
answers that count for the captured request. A handler is a coroutine (see `effects`), and raises
`SkipRequest` to skip the request.

| module           | APIs                                                                        |
| ---------------- | --------------------------------------------------------------------------- |
| `produce`        | Produce; `produce_batches` numbers batches, `produce_delivery` learns       |
| `fetch`          | Fetch; `fetch_encoding` writes requests, `fetch_scan` reads responses       |
| `share`          | ShareFetch, ShareAcknowledge                                                |
| `metadata`       | Metadata, ListOffsets, OffsetForLeaderEpoch                                 |
| `topic_changes`  | CreateTopics, CreatePartitions, DeleteTopics, DeleteRecords                 |
| `offset_commit`  | OffsetCommit, OffsetFetch                                                   |
| `classic_groups` | JoinGroup, SyncGroup, Heartbeat, LeaveGroup                                 |
| `heartbeats`     | ConsumerGroupHeartbeat, ShareGroupHeartbeat                                 |
| `descriptions`   | Describe: groups of all kinds, DescribeTransactions; DeleteGroups           |
| `transactions`   | InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, TxnOffsetCommit, EndTxn |

They share `replay_context` (what they work with), `request_rewriter` (versions and values), `sending` (what
comes first; nodes; the default handler), `producer_ids`, `rejoin` and `prior_member_joins` (members that get
in without a captured request).
"""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from kdissect.protocol.api_keys import ApiKey
from kdissect.replay.effects import Answer, Coroutine
from kdissect.replay.handlers import (
    classic_groups,
    descriptions,
    fetch,
    heartbeats,
    metadata,
    offset_commit,
    produce,
    share,
    topic_changes,
    transactions,
)
from kdissect.replay.handlers.replay_context import ReplayContext
from kdissect.replay.handlers.sending import default_handler, until_topics_allow
from kdissect.replay.load.replay_items import ReplayItem
from kdissect.replay.load.request_order import AFTER_MEMBERS
from kdissect.replay.rewrite.names import Tree

Handler: TypeAlias = Callable[[ReplayContext, ReplayItem, Tree], Coroutine[list[Answer]]]

HANDLERS: Mapping[int, Handler] = {
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
    **dict.fromkeys((ApiKey.CREATE_TOPICS, ApiKey.CREATE_PARTITIONS), topic_changes.create),
    **dict.fromkeys((ApiKey.DELETE_TOPICS, ApiKey.DELETE_RECORDS), topic_changes.delete),
    **dict.fromkeys(AFTER_MEMBERS, descriptions.groups),
    ApiKey.DESCRIBE_TRANSACTIONS: descriptions.transactions,
    ApiKey.SHARE_FETCH: share.fetch,
    ApiKey.SHARE_ACKNOWLEDGE: share.acknowledge,
}
"""The handlers by API key. `default_handler` is that of all other APIs."""


def handle(context: ReplayContext, item: ReplayItem) -> Coroutine[list[Answer]]:
    """Replay a captured request, after earlier ones that created or changed its topics."""
    handler = HANDLERS.get(item.request.key, default_handler)
    body = context.captured.request(item.request)
    yield from until_topics_allow(context, item, body)
    return (yield from handler(context, item, body))
