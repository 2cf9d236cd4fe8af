"""Descriptions of groups and transactions: asked when what they are about has come as far as in the capture.

Administrators and monitors ask on connections of their own, which at other paces than the captured one would
overtake the members. A request of another process is not waited for.
"""

from bisect import bisect_left
from collections.abc import Iterator

from kdissect.replay.effects import Answer, Coroutine, until
from kdissect.replay.handlers.replay_context import ReplayContext
from kdissect.replay.handlers.sending import default_handler, until_group_allows
from kdissect.replay.load.replay_items import ReplayItem
from kdissect.replay.rewrite.names import Tree


def groups(context: ReplayContext, item: ReplayItem, body: Tree) -> Coroutine[list[Answer]]:
    """Describe groups after the joins, syncs and leaves that they had seen in the capture."""
    yield from until_group_allows(context, item)
    return (yield from default_handler(context, item, body))


def transactions(context: ReplayContext, item: ReplayItem, body: Tree) -> Coroutine[list[Answer]]:
    """Describe transactions after the last requests of them that had been answered in the capture."""
    for index in _answered_before(context, item, body):
        gate = context.gates.own_gate(index)
        if gate is not None:
            yield from until(gate)
    return (yield from default_handler(context, item, body))


def _answered_before(context: ReplayContext, item: ReplayItem, body: Tree) -> Iterator[int]:
    """Yield for each transactional id its last request that had been answered when this one was sent."""
    sent_ns, items = item.request.first_ns, context.loaded.items
    for name in body["transactional_ids"] or ():
        requests = context.loaded.transactions.get(name, [])
        for index in reversed(requests[: bisect_left(requests, item.request.index)]):
            answered_ns = items[index].request.answered_ns
            if answered_ns is not None and answered_ns <= sent_ns:
                yield index
                break
