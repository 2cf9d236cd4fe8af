"""Steps that members of classic groups take by themselves: join, rejoin, assign, and leave when a pass ends.

A rebalance of the target that the capture did not have is joined by the replayer's own requests, as a
client would. This lies beside the handlers, and not in `target`, since it needs most of the context:
coordinators, captured assignments, names.

A leader assigns the captured partitions. If the target's members are not those of the captured generation,
these partitions are dealt out among the members that are there. If the capture has no assignment, all
partitions of the topics that the leader subscribes to are. A target in memory lets each member lead a group
of its own: there each gets what it had.

A group begins a generation when all members that it knows have joined. So nobody may wait until another one
has noticed the rebalance at a heartbeat, which comes after this very join in the order of the capture:

- Members that got into one generation in the capture do so on the target. One that was let in alone, since
  the others were late, joins again with them (`bring_together`).
- When a member joins by itself, the others do so too, unless they come soon (`_take_along`).
"""

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.codec.messages import encode_embedded, require_embedded
from kdissect.protocol.error_codes import CLASSIC_MEMBER_LOST, ErrorCode, error_name
from kdissect.replay.effects import Answer, Coroutine, Gate, pause, spawn, until
from kdissect.replay.handlers.replay_context import ReplayContext
from kdissect.replay.handlers.sending import send_to_coordinator
from kdissect.replay.identifiers import TopicPartition
from kdissect.replay.load.prior_members import COMMIT_GENERATION
from kdissect.replay.load.replay_items import ReplayItem
from kdissect.replay.rewrite.names import Tree
from kdissect.replay.rewrite.roles import rewritten_embedded
from kdissect.replay.rewrite.versions import chosen_version
from kdissect.replay.settings import ReplaySettings
from kdissect.replay.target.members import LiveMember

ASSIGNMENT, SUBSCRIPTION = "ConsumerProtocolAssignment", "ConsumerProtocolSubscription"


def assignments(context: ReplayContext, leader: LiveMember, captured_generation: int) -> list[Tree]:
    """Return the assignments of a SyncGroup request, one for each member that the leader knows."""
    captured = context.loaded.assignments.get((leader.group, captured_generation), {})
    known = context.members.of_group(leader.group)
    by_live = {
        known[name].member_id: assigned for name, assigned in captured.items() if name in known and assigned
    }
    if not leader.others:  # the target named a leader of no members
        return []
    here = {member: assigned for member, assigned in by_live.items() if member in leader.others}
    if here.keys() == set(leader.others) and (here == by_live or context.settings.dry_partitions):
        return [
            {"member_id": member, "assignment": rewritten_embedded(ASSIGNMENT, assigned, context.names)}
            for member, assigned in here.items()
        ]
    partitions = _captured_partitions(captured, context) or _subscribed_partitions(leader, context)
    dealt: dict[str, dict[str, list[int]]] = {member: {} for member in leader.others}
    for number, (topic, partition) in enumerate(partitions):
        dealt[leader.others[number % len(leader.others)]].setdefault(topic, []).append(partition)
    context.notes.counts["assignments dealt out anew"] += 1
    return [{"member_id": member, "assignment": _encoded(topics)} for member, topics in dealt.items()]


def _encoded(topics: dict[str, list[int]]) -> bytes:
    tree = {"assigned_partitions": [{"topic": name, "partitions": parts} for name, parts in topics.items()]}
    return encode_embedded(ASSIGNMENT, 0, tree)


def _captured_partitions(captured: dict[str, bytes], context: ReplayContext) -> list[TopicPartition]:
    return [
        (context.names.topic(topic["topic"]), partition)
        for assigned in captured.values()
        for topic in require_embedded(ASSIGNMENT, assigned)["assigned_partitions"]
        for partition in topic["partitions"]
    ]


def _subscribed_partitions(leader: LiveMember, context: ReplayContext) -> list[TopicPartition]:
    topics: set[str] = set()
    for protocol in leader.join.get("protocols", ()):
        topics.update(require_embedded(SUBSCRIPTION, protocol["metadata"])["topics"])
    return [
        (topic, partition)
        for topic in sorted(topics)
        if topic in context.cluster.topics
        for partition in sorted(context.cluster.topics[topic].leaders)
    ]


LONGEST_SESSION_MS = 1_800_000  # group.max.session.timeout.ms of a broker that nobody configured
SOON_NS = 50_000_000  # until a join has reached the target
LATER_NS = 500_000_000  # until others have noticed that one joined
MOST_JOINS = 5  # one gets an id, the next is in, unless the id is lost in between (KIP-394)
PROTOCOL_IN_SYNC = 5  # SyncGroup from which a request names the protocol (KIP-559)
INSTANCES_IN_SYNC = 3  # SyncGroup and LeaveGroup from which members can be static (KIP-345)


def lengthen_session(context: ReplayContext, join: Tree) -> None:
    """Lengthen the session of a member, if heartbeats come slower than captured."""
    join["session_timeout_ms"] = session_ms(context.settings, join["session_timeout_ms"])


def session_ms(settings: ReplaySettings, captured_ms: int) -> int:
    """Return the session timeout that a member gets, in ms."""
    if settings.speed >= 1:
        return captured_ms
    return min(int(captured_ms / settings.speed), LONGEST_SESSION_MS)


def finish_join(
    context: ReplayContext,
    client_id: str | None,
    live: LiveMember,
    body: Tree,
    version: int,
    answer: Answer,
    stop_at_id: bool,
) -> Coroutine[Answer]:
    """Join on, after the answer to a first JoinGroup, until the member is in; return the last answer.

    With `stop_at_id` stop when the target has given it the id that the capture's next join will use
    (KIP-394).
    """
    for tries_left in reversed(range(MOST_JOINS)):
        response = answer.body
        error = response.get("error_code") if response else None
        if error == ErrorCode.MEMBER_ID_REQUIRED:
            live.member_id = response["member_id"]
            if stop_at_id:
                return answer
        elif error == ErrorCode.UNKNOWN_MEMBER_ID and body["member_id"]:
            live.member_id = ""
        else:
            break
        if not tries_left:  # the target never lets it in
            return answer
        body = body | {"member_id": live.member_id}
        answer = yield from context.coordinators.ask(ApiKey.JOIN_GROUP, version, body, client_id)
    if response and not response["error_code"]:
        live.take_join_response(body, version, response)
    return answer


def send_as_member(
    context: ReplayContext, item: ReplayItem, live: LiveMember, version: int, body: Tree
) -> Coroutine[Answer]:
    """Send a request as a member.

    If the target rebalanced when the capture did not, join again and send it again.
    """
    answer = yield from send_to_coordinator(context, item, version, body)
    error = answer.first_error
    if error not in CLASSIC_MEMBER_LOST or item.error:
        return answer
    context.notes.counts["rebalances joined by the replayer"] += 1
    client_id = live.client_id = context.rewriter.client_id(item)
    if not (yield from rejoin(context, live)):
        return answer
    context.notes.add(item, f"asked again after {error_name(error)}: the target rebalanced")
    generation = COMMIT_GENERATION if COMMIT_GENERATION in body else "generation_id"
    body = body | {"member_id": live.member_id, generation: live.generation}
    return (yield from context.coordinators.ask(item.request.key, version, body, client_id))


def put_into_sync(body: Tree, live: LiveMember, version: int) -> None:
    """Put the live member into a SyncGroup request."""
    body["member_id"], body["generation_id"] = live.member_id, live.generation
    if version >= PROTOCOL_IN_SYNC:
        body["protocol_type"], body["protocol_name"] = "consumer", live.protocol


def rejoin(context: ReplayContext, live: LiveMember, beside: ReplayItem | None = None) -> Coroutine[bool]:
    """Join and sync again; return whether that went well. A second call waits for the first.

    A member that joins `beside` a captured join gets into its generation.
    """
    if live.rejoining is not None:
        return (yield from until(live.rejoining))
    if not live.join:
        return False
    gate, joined = Gate(), Gate()
    live.rejoining = gate
    try:
        if beside is None:
            yield from spawn(_take_along(context, live, joined), live.connection)
        client_id, version = live.client_id, live.join_version
        while True:
            answer = yield from context.coordinators.ask(ApiKey.JOIN_GROUP, version, live.join, client_id)
            answer = yield from finish_join(
                context, client_id, live, live.join, version, answer, stop_at_id=False
            )
            if not answer.body or answer.body["error_code"]:
                return False
            if beside is None or context.gates.has_ended(beside.request.index):
                break
            yield from pause(SOON_NS)  # both end at once, or the other join came too late again
            if context.gates.has_ended(beside.request.index):
                break
        joined.open()
        answer = yield from _sync(context, live, beside)
        return bool(answer.body) and not answer.body["error_code"]
    finally:
        live.rejoining = None
        joined.open()
        gate.open()


def bring_together(context: ReplayContext, item: ReplayItem, joiner: LiveMember) -> Coroutine[None]:
    """Have members join again that got into the generation of a captured join, and are in already."""
    order, index = context.loaded.group_order, item.request.index
    together = [each for each in order.together(index) if each[0] != index]
    while together:
        yield from pause(SOON_NS)
        if context.gates.has_ended(index):
            return
        for other, name in together:
            live = context.members.live(joiner.group, name)
            if live is not None and live is not joiner and context.gates.has_ended(other):
                yield from _join_if_idle(context, live, item)


def _take_along(context: ReplayContext, joiner: LiveMember, joined: Gate) -> Coroutine[None]:
    """Have all members of a group join again, if one that joins by itself waits for them."""
    yield from pause(LATER_NS)
    while not joined.opened:
        for live in context.members.all():
            if live.group == joiner.group and live is not joiner and not joined.opened:
                yield from _join_if_idle(context, live, None)
        yield from pause(LATER_NS)


def _join_if_idle(context: ReplayContext, live: LiveMember, beside: ReplayItem | None) -> Coroutine[None]:
    """Start to join a member again, unless it does so already, or is not in."""
    if live.is_in and live.rejoining is None and not live.joining and live.joins_by == ApiKey.JOIN_GROUP:
        context.notes.counts["members that joined again for others"] += 1
        yield from spawn(rejoin(context, live, beside), live.connection)


def _sync(context: ReplayContext, live: LiveMember, beside: ReplayItem | None) -> Coroutine[Answer]:
    version = chosen_version(ApiKey.SYNC_GROUP, 3, context.cluster.versions.get(ApiKey.SYNC_GROUP)) or 0
    body: Tree = {"group_id": live.join["group_id"], "assignments": []}
    put_into_sync(body, live, version)
    if version >= INSTANCES_IN_SYNC:
        body["group_instance_id"] = live.join.get("group_instance_id")
    if live.leads:
        body["assignments"] = assignments(context, live, _generation(context, live, beside))
    return (yield from context.coordinators.ask(ApiKey.SYNC_GROUP, version, body, live.client_id))


def _generation(context: ReplayContext, live: LiveMember, beside: ReplayItem | None) -> int:
    """Return the captured generation whose partitions are assigned: that of a join, or the last one."""
    if beside is not None:
        return int(context.captured.response(beside.request)["generation_id"])
    return max((each for group, each in context.loaded.assignments if group == live.group), default=-1)


def leave_all(context: ReplayContext) -> Coroutine[None]:
    """Leave the groups of all members that are left: nobody should wait for their sessions to end."""
    for live in context.members.all():
        if live.generation > 0:
            yield from leave_group(context, live)


def leave_group(context: ReplayContext, live: LiveMember) -> Coroutine[None]:
    """Leave as one member, in or not: a group also waits for ids that it gave away."""
    group, key = context.names.group(live.group), live.joins_by
    body: Tree = {"group_id": group, "member_id": live.member_id}
    if key == ApiKey.JOIN_GROUP:
        key = ApiKey.LEAVE_GROUP
        version = chosen_version(key, 3, context.cluster.versions.get(key)) or 0
        if version >= INSTANCES_IN_SYNC:
            body = {"group_id": group, "members": [{"member_id": live.member_id}]}
    else:
        version = chosen_version(key, 0, context.cluster.versions.get(key)) or 0
        body["member_epoch"] = -1
    yield from context.coordinators.ask(key, version, body, None)
    live.generation = -1
