"""A rewritten request on its way: what it waits for before it is sent, and the nodes that it goes to.

A request waits for earlier requests, for leaders, or for its turn in a partition. Every rule has a
deadline, and raises SkipRequest when it passes. Then it goes to the leaders of its partitions, to a
coordinator, or to whichever node. The default handler lies here too: rewriting, routing and sending are all
that most APIs need.
"""

from collections.abc import Callable, Iterable

from kdissect.exchanges.filter import topics_of
from kdissect.replay.disposition import Disposition, SkipRequest
from kdissect.replay.effects import ANY, CONTROL, Answer, Coroutine, Part, ask, pause, spawn, until
from kdissect.replay.handlers.replay_context import ReplayContext
from kdissect.replay.identifiers import Route, TopicPartition
from kdissect.replay.load.replay_items import ReplayItem
from kdissect.replay.rewrite.names import Tree
from kdissect.replay.target.cluster import PARTITIONS_OF, split
from kdissect.replay.target.coordinators import GROUPS_FIELD
from kdissect.replay.target.leaders import REFRESH_NS
from kdissect.replay.target.producers import SequenceNumbering

EARLIER_BATCH = "a batch before this one"
AGAIN_NS = 250_000_000
"""The pause before a request is sent again, since the target does not have yet what it is about."""

STATE_PAUSES = 20
"""So many pauses at most, until the target has written the state of share groups."""


def until_ended(context: ReplayContext, index: int, what: str) -> Coroutine[None]:
    """Wait for an earlier request to end. Raise SkipRequest if that takes too long."""
    gate = context.gates.gate(index)
    if gate is not None and not gate.opened:
        opened = yield from until(gate)
        if not opened:
            raise SkipRequest(Disposition.DEPENDENCY, f"{what} did not end in time")


def until_topics_allow(context: ReplayContext, item: ReplayItem, body: Tree) -> Coroutine[None]:
    """Wait for earlier requests that created the topics of a captured request, or changed them.

    Raise SkipRequest if that takes too long.
    """
    request, writers = item.request, context.loaded.last_writers
    if writers.change_topics:
        for topic in topics_of(request.key, request.version or 0, body, context.names.captured_ids):
            for index in writers.change_of(topic, request.index):
                yield from until_ended(context, index, f"an earlier change of topic {topic}")


LATE_READS = "reads that waited too long for what they read"
LATE_WRITES = "produces that waited too long for share groups to begin"


def until_order_allows(
    context: ReplayContext, missing: Callable[[], int | None], late: str = LATE_READS
) -> Coroutine[None]:
    """Wait until no request is missing that a read, a commit or a produce comes after in the capture.

    One that does not end in time is waited for no more, and counted as `late`: what was read instead is
    compared.
    """
    while (index := missing()) is not None:
        gate = context.gates.gate(index)
        if gate is not None and not (yield from until(gate)):
            context.notes.counts[late] += 1
            return


def until_written_before(context: ReplayContext, item: ReplayItem, body: Tree) -> Coroutine[None]:
    """Wait for the requests before this one that wrote the same state: the last writer decides.

    `body` is the request as captured.
    """
    request = item.request
    writers = context.loaded.last_writers
    for index in writers.earlier(request.index, request.key, request.version or 0, body, context.names):
        gate = context.gates.gate(index)
        if gate is not None and not (yield from until(gate)):
            context.notes.counts["requests that waited too long for what was written before"] += 1


def until_group_allows(context: ReplayContext, item: ReplayItem) -> Coroutine[None]:
    """Wait for what other members of its group had done before a request was sent in the capture."""
    order, gates, index = context.loaded.group_order, context.gates, item.request.index
    for each in order.ended.get(index, ()):
        gate = gates.own_gate(each)
        if gate is not None:
            yield from until(gate)
    for each in order.sent.get(index, ()):
        if not gates.has_ended(each):
            yield from until(context.members.joining(each))


def until_transaction_allows(
    context: ReplayContext, item: ReplayItem, conflicts: Callable[[int], bool]
) -> Coroutine[None]:
    """Wait for the earlier requests of its transactional id that conflict with a request, by API key."""
    for index in context.transactions.earlier(item, conflicts):
        yield from until_ended(context, index, f"an earlier request of transactional id {item.transaction}")


def until_led(context: ReplayContext, partitions: Iterable[TopicPartition]) -> Coroutine[None]:
    """Wait until partitions have leaders. Raise SkipRequest if that takes too long.

    A partition that stays without a leader delays only the first request that needs it.
    """
    for partition in partitions:
        name = context.names.topic(partition[0])
        while context.cluster.leader(name, partition[1]) == ANY:
            if not context.leaders.elections.pending(partition):
                why = f"{name}-{partition[1]} has no leader on the target"
                raise SkipRequest(Disposition.DEPENDENCY, why)
            yield from spawn(context.leaders.refresh(), CONTROL)
            yield from pause(2 * REFRESH_NS)
        context.leaders.elections.clear(partition)


def until_numbered(
    context: ReplayContext,
    item: ReplayItem,
    numberings: Iterable[tuple[TopicPartition, SequenceNumbering]],
    route: Callable[[TopicPartition], Route],
) -> Coroutine[None]:
    """Wait until all partitions take batches by the routes that these would go.

    Raise SkipRequest if that takes too long.
    """
    numberings = list(numberings)
    deadline_ns = context.clock.deadline_ns(context.settings.dependency_deadline_s)
    while waiting := [
        numbering
        for partition, numbering in numberings
        if not numbering.takes(route(partition), item.request.index)
    ]:
        if context.clock.now_ns() >= deadline_ns or not (yield from until(waiting[0].gate)):
            raise SkipRequest(Disposition.DEPENDENCY, f"{EARLIER_BATCH} did not end in time")


def route(context: ReplayContext, item: ReplayItem, version: int, body: Tree) -> Coroutine[list[Part]]:
    """Return a rewritten request as the parts that its nodes get.

    Raise SkipRequest if its coordinator is not found.
    """
    key, client_id = item.request.key, context.rewriter.client_id(item)
    if key in PARTITIONS_OF:
        bodies = split(key, body, context.cluster, context.names)
        context.notes.add_split(item, len(bodies))
        return [Part(key, version, each, node, client_id) for node, each in bodies]
    node = yield from context.coordinators.node_for(key, body)
    return [Part(key, version, body, node, client_id)]


def send_routed(
    context: ReplayContext, item: ReplayItem, version: int, body: Tree
) -> Coroutine[list[Answer]]:
    """Send a rewritten request to its nodes, and return their answers.

    Leaders are learnt anew if one has moved.
    """
    answers = yield from ask((yield from route(context, item, version, body)))
    yield from context.leaders.refresh_if_moved(answers)
    return answers


def send_to_coordinator(
    context: ReplayContext, item: ReplayItem, version: int, body: Tree
) -> Coroutine[Answer]:
    """Send a rewritten request to its coordinator until the answer is more than a passing error."""
    client_id = context.rewriter.client_id(item)
    return (yield from context.coordinators.ask(item.request.key, version, body, client_id, item))


def default_handler(context: ReplayContext, item: ReplayItem, body: Tree) -> Coroutine[list[Answer]]:
    """Replay a request that needs no more than the target's values, a version and a node."""
    version = context.rewriter.version(item)
    yield from until_written_before(context, item, body)
    body = context.rewriter.rewrite(item, body, version)
    if item.request.key in GROUPS_FIELD:  # its coordinator may be loading, or have moved
        return [(yield from send_to_coordinator(context, item, version, body))]
    return (yield from send_routed(context, item, version, body))
