"""Requests that make or delete topics, partitions and records."""

from functools import partial

from kdissect.exchanges.filter import topics_of
from kdissect.replay.effects import Answer, Coroutine
from kdissect.replay.handlers.replay_context import ReplayContext
from kdissect.replay.handlers.sending import default_handler, until_order_allows
from kdissect.replay.load.replay_items import ReplayItem
from kdissect.replay.rewrite.names import Tree

LATE_DELETIONS = "deletions that waited too long for what was written or read before"


def create(context: ReplayContext, item: ReplayItem, body: Tree) -> Coroutine[list[Answer]]:
    """Replay a request that makes topics or partitions, and learn where they are."""
    counts = {
        context.names.topic(each["name"]): max(each.get("num_partitions", each.get("count", 1)), 1)
        for each in body["topics"]
    }
    _fit_replicas(context, body)
    answers = yield from default_handler(context, item, body)
    made = [
        each["name"]
        for answer in answers
        for each in answer.body.get("topics") or answer.body.get("results") or ()
        if not each["error_code"] and not body.get("validate_only")
    ]
    yield from context.discovery.until_settled(made, counts)
    return answers


def _fit_replicas(context: ReplayContext, body: Tree) -> None:
    """Ask for no more replicas than the target has nodes, as `create_topics` does."""
    most = context.cluster.most_replicas
    for topic in body["topics"]:
        if topic.get("replication_factor", 0) > most:
            topic["replication_factor"] = most
            context.notes.counts["topics created with fewer replicas"] += 1


def delete(context: ReplayContext, item: ReplayItem, body: Tree) -> Coroutine[list[Answer]]:
    """Replay a request that deletes topics or records, after what was written and read before."""
    request = item.request
    for topic in topics_of(request.key, request.version or 0, body, context.names.captured_ids):
        missing = partial(context.order.missing_write_to, topic, request.index)
        yield from until_order_allows(context, missing, LATE_DELETIONS)
    unread = partial(context.order.missing_fetch, context.loaded.items, request.index)
    yield from until_order_allows(context, unread, LATE_DELETIONS)
    return (yield from default_handler(context, item, body))
