"""Descriptions of groups and transactions: asked when what they are about has come as far as in the capture.

Administrators and monitors ask on connections of their own, which at other paces than the captured one would
overtake the members. They may belong to another process than the members, since a monitor that describes all
groups would tie all of them to one process. Processes tell each other nothing, but the target does: until it
knows the group or the transaction, the description is asked for again.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator

from kdissect.protocol.error_codes import ErrorCode
from kdissect.replay.effects import Answer, Coroutine, ask, pause, until
from kdissect.replay.handlers.replay_context import ReplayContext
from kdissect.replay.handlers.sending import AGAIN_NS, default_handler, until_group_allows
from kdissect.replay.load.replay_items import ReplayItem
from kdissect.replay.rewrite.names import Tree

NOT_THERE = frozenset({ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND})


def groups(context: ReplayContext, item: ReplayItem, body: Tree) -> Coroutine[list[Answer]]:
    """Describe or delete groups after the joins, syncs and leaves that they had seen in the capture."""
    yield from until_group_allows(context, item)
    seen = context.loaded.group_order.ended.get(item.request.index, ())
    answers = yield from default_handler(context, item, body)
    return (yield from until_there(context, item, answers, seen))


def transactions(context: ReplayContext, item: ReplayItem, body: Tree) -> Coroutine[list[Answer]]:
    """Describe transactions after the last requests of them that had been answered in the capture."""
    seen = list(_answered_before(context, item, body))
    for index in seen:
        gate = context.gates.own_gate(index)
        if gate is not None:
            yield from until(gate)
    answers = yield from default_handler(context, item, body)
    return (yield from until_there(context, item, answers, seen))


def until_there(
    context: ReplayContext, item: ReplayItem, answers: list[Answer], seen: Iterable[int]
) -> Coroutine[list[Answer]]:
    """Ask again until the target knows what another process makes, if the capture's answer had no error.

    `seen` are the requests that the description came after.
    """
    deadline_ns = context.clock.deadline_ns(context.settings.dependency_deadline_s)
    elsewhere = not item.error and not all(map(context.gates.is_own, seen))
    while elsewhere and any(NOT_THERE.intersection(each.errors) for each in answers):
        if context.clock.now_ns() >= deadline_ns:
            break
        context.notes.counts["descriptions asked for again"] += 1
        yield from pause(AGAIN_NS)
        answers = yield from ask([each.part for each in answers], synthetic=True)
    return answers


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
