"""ShareFetch and ShareAcknowledge (KIP-932), in sessions of the replayer's own.

A captured fetch goes to the leaders that its session's partitions have on the target. Its acknowledgments
go along, and to every other node that has handed out records of those partitions. All requests of a member
to one node share a connection, since the target ends a session with the connection that it came by.

A cluster makes the topic with the state of share groups at their first use. Until it is there, fetches are
refused with an error that says nothing, or bring nothing since the leader does not know yet where the group
begins to read. They are sent again for some seconds: what is written before the group begins is lost to it.
"""

from collections import Counter
from collections.abc import Iterable
from typing import TypeAlias

from kdissect.protocol.error_codes import SHARE_SESSION_ERRORS, ErrorCode
from kdissect.protocol.schema.registry import api_name
from kdissect.replay.disposition import NOT_IN, Disposition, SkipRequest
from kdissect.replay.effects import ANY, Answer, Coroutine, Part, ask, pause
from kdissect.replay.handlers.fetch_patience import SHORTEST_MS, scaled_wait_ms, shared_wait_ms
from kdissect.replay.handlers.prior_member_joins import member_if_any
from kdissect.replay.handlers.replay_context import ReplayContext
from kdissect.replay.handlers.sending import AGAIN_NS, STATE_PAUSES, until_group_allows
from kdissect.replay.handlers.share_patience import in_turn, until_turn, until_written, wait_ms_for_records
from kdissect.replay.identifiers import TopicPartition
from kdissect.replay.load.captured_fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH
from kdissect.replay.load.replay_items import ReplayItem
from kdissect.replay.rewrite.names import Tree
from kdissect.replay.target.members import LiveMember
from kdissect.replay.target.share_sessions import (
    Acknowledgements,
    OwnShareSession,
    ShareMember,
    acknowledgements_in,
)

FIRST_VERSION, RENEWALS = 1, 2  # version 0 was an early access; members can renew what they hold
SINCE_RENEWALS = ("share_acquire_mode", "is_renew_ack")
USUAL_RECORDS = 500  # max.poll.records of a client that nobody configured
LIMITS = ("min_bytes", "max_bytes", "max_records", "batch_size", "share_acquire_mode", "is_renew_ack")

AcknowledgementBatches: TypeAlias = dict[TopicPartition, list[Tree]]
"""Partition of the target -> the batches that acknowledge, as the request has them."""


def fetch(context: ReplayContext, item: ReplayItem, body: Tree) -> Coroutine[list[Answer]]:
    """Fetch what the captured session is about, and acknowledge what was handed out."""
    if body["share_session_epoch"] == FINAL_EPOCH:
        raise SkipRequest(Disposition.POLICY, "sessions are closed by acknowledging")
    yield from until_group_allows(context, item)
    yield from until_written(context, item)
    version = _version(context, item, body)
    live = yield from _member(context, body)
    member = context.shares.of(live)
    wanted = member.follow(item.request.server, body, context.names)
    if not wanted:  # its session began before the capture: it is about what the target has assigned
        wanted |= _assigned(context, live)
    nodes = {context.cluster.leader(*partition) for partition in wanted} - {ANY}
    if not nodes:
        raise SkipRequest(Disposition.DEPENDENCY, "none of its partitions is on the target")
    whole_ms = scaled_wait_ms(context, body["max_wait_ms"])
    if len(nodes) > 1:
        whole_ms = shared_wait_ms(context, item, whole_ms)
    waited_ms = yield from until_turn(context, lambda: member.own(nodes).values())
    sessions, by_node = member.own(nodes), _by_node(context, member.captured.values())
    rest_ms = wait_ms_for_records(context, item, live.group, whole_ms)
    rest_ms = max(rest_ms - waited_ms, min(rest_ms, SHORTEST_MS))
    limits = {
        "max_records": USUAL_RECORDS,
        "batch_size": USUAL_RECORDS,
        **{name: body[name] for name in LIMITS if name in body},
    }
    acknowledgements = acknowledgements_in(body, context.names)
    parts = []
    for node, session in sessions.items():
        here = by_node.get(node, set())
        batches: AcknowledgementBatches = {partition: [] for partition in here - session.partitions}
        wait_ms = whole_ms if batches else rest_ms
        if session.epoch != INITIAL_EPOCH:
            batches |= _acknowledging(session, acknowledgements, body)
        tree = _request(context, live, session, batches) | limits | {"max_wait_ms": wait_ms}
        tree["forgotten_topics_data"] = _forgotten(context, session.partitions - here)
        session.tell(here)
        parts.append(_part(context, item, version, tree, node, wait_ms))
    asking = _send_until_begun(context, item, live, member, parts)
    return (yield from in_turn(sessions.values(), asking))


def acknowledge(context: ReplayContext, item: ReplayItem, body: Tree) -> Coroutine[list[Answer]]:
    """Acknowledge what was handed out; with the last captured session the replayer's own ones end."""
    yield from until_group_allows(context, item)
    version = _version(context, item, body)
    live = yield from _member(context, body)
    member = context.shares.of(live)
    member.follow(item.request.server, body, context.names)
    yield from until_turn(context, member.sessions.values)
    closes = body["share_session_epoch"] == FINAL_EPOCH
    ends = closes and not member.captured
    acknowledgements, parts = acknowledgements_in(body, context.names), list[Part]()
    sessions = member.own(member.sessions)
    for node, session in sessions.items():
        batches = _acknowledging(session, acknowledgements, body)
        if session.epoch == INITIAL_EPOCH or not (batches or ends):
            continue
        if ends:
            session.epoch = FINAL_EPOCH
        tree = _request(context, live, session, batches)
        if "is_renew_ack" in body:
            tree["is_renew_ack"] = body["is_renew_ack"]
        parts.append(_part(context, item, version, tree, node))
    if ends:
        member.sessions.clear()
    if not parts and closes and member.captured:
        raise SkipRequest(Disposition.POLICY, "its session is one with others of its member, which go on")
    if not parts:
        why = "the target has handed out nothing that could be acknowledged"
        raise SkipRequest(Disposition.DEPENDENCY, why)
    asking = _send(context, item, live, member, parts)
    return (yield from in_turn(sessions.values(), asking))


def learn_acquired(
    context: ReplayContext, session: OwnShareSession, answer: Answer
) -> Counter[TopicPartition]:
    """Learn what the target handed out, or that the session is lost. Return the records of each partition."""
    handed_out = Counter[TopicPartition]()
    body, epoch = answer.body, answer.part.body["share_session_epoch"]
    if not body or body["error_code"] in SHARE_SESSION_ERRORS:
        if epoch < session.epoch:  # else it was of a session that is forgotten already
            session.forget()
            context.notes.counts["share sessions begun again"] += 1
        return handed_out
    for topic in body["responses"]:
        name = context.names.name_of(topic["topic_id"]) or ""
        for each in topic["partitions"]:
            partition = name, each["partition_index"]
            if not each["error_code"]:
                session.unlisted.discard(partition)
            ranges = [
                (batch["first_offset"], batch["last_offset"]) for batch in each.get("acquired_records") or ()
            ]
            if ranges:
                session.acquired.setdefault(partition, []).extend(ranges)
                handed_out[partition] += sum(last - first + 1 for first, last in ranges)
    return handed_out


def _version(context: ReplayContext, item: ReplayItem, body: Tree) -> int:
    """Return the version to send, and drop from the body what it does not have.

    Raise SkipRequest for a loss.
    """
    version = context.rewriter.version(item, least=FIRST_VERSION)
    lost = [name for name in SINCE_RENEWALS if body.get(name)] if version < RENEWALS else []
    if lost and not context.settings.allow_lossy:
        name = api_name(item.request.key)
        why = f"{name} v{item.request.version} as v{version} loses {', '.join(lost)}"
        raise SkipRequest(Disposition.LOSSY, why)
    for name in lost:
        del body[name]
    return version


def _member(context: ReplayContext, body: Tree) -> Coroutine[LiveMember]:
    """Return the member that stands for the captured one; one that has left may still acknowledge."""
    live = yield from member_if_any(context, body["group_id"] or "", body["member_id"] or "")
    if live is None or not live.member_id:
        raise SkipRequest(Disposition.DEPENDENCY, NOT_IN)
    return live


def _assigned(context: ReplayContext, live: LiveMember) -> set[TopicPartition]:
    found = ((context.names.name_of(each["topic_id"]), each["partitions"]) for each in live.owned)
    return {(name, partition) for name, partitions in found if name for partition in partitions}


def _send(
    context: ReplayContext, item: ReplayItem, live: LiveMember, member: ShareMember, parts: list[Part]
) -> Coroutine[list[Answer]]:
    context.notes.add_split(item, len(parts))
    answers = yield from ask(parts, owner=("share", live.group, live.member_id))
    _learn(context, live.group, member, answers)
    yield from context.leaders.refresh_if_moved(answers)
    return answers


def _send_until_begun(
    context: ReplayContext, item: ReplayItem, live: LiveMember, member: ShareMember, parts: list[Part]
) -> Coroutine[list[Answer]]:
    """Fetch, and again where the target keeps no state of share groups yet.

    A fetch that was refused in the capture too is sent once. Fetch again also where the group has not begun
    to read a partition, though it did with the captured fetch. Return no answer with such errors if there is
    a later one of its node, which leaves out partitions that have no error any more.
    """
    last = answers = yield from _send(context, item, live, member, parts)
    for _ in range(STATE_PAUSES):
        refused = [each for each in last if ErrorCode.UNKNOWN_SERVER_ERROR in each.errors]
        waiting = [each for each in last if not each.errors and _begins(context, item, member, each)]
        if not (refused or waiting) or item.error:
            break
        context.notes.counts["fetches of share groups sent again"] += 1
        yield from pause(AGAIN_NS)
        parts = []
        for answer in (*refused, *waiting):
            session = member.sessions.setdefault(answer.part.node, OwnShareSession())
            if answer.body["error_code"]:  # of the whole request: it may have begun no session
                session.epoch = INITIAL_EPOCH
            begins = session.epoch == INITIAL_EPOCH
            told: AcknowledgementBatches = {each: [] for each in session.partitions} if begins else {}
            tree = answer.part.body | {"forgotten_topics_data": []} | _request(context, live, session, told)
            parts.append(answer.part._replace(body=tree, again=True))
        last = yield from ask(parts, synthetic=True, owner=("share", live.group, live.member_id))
        _learn(context, live.group, member, last)
        again = {each.part.node for each in last}
        answers = [each for each in answers if not (each.errors and each.part.node in again)] + last
    return answers


def _begins(context: ReplayContext, item: ReplayItem, member: ShareMember, answer: Answer) -> bool:
    """Return whether a group has not begun to read a partition yet, as it did with the captured fetch."""
    session = member.sessions.get(answer.part.node)
    return session is not None and any(
        context.loaded.shares.is_begin(item.request.index, (context.names.captured_name(topic) or "", number))
        for topic, number in session.unlisted
    )


def _learn(context: ReplayContext, group: str, member: ShareMember, answers: list[Answer]) -> None:
    for answer in answers:
        session = member.sessions.get(answer.part.node)
        if session is not None:
            context.shares.supply(group).handed_out.update(learn_acquired(context, session, answer))


def _by_node(
    context: ReplayContext, sessions: Iterable[set[TopicPartition]]
) -> dict[int, set[TopicPartition]]:
    """Return what the member's sessions are about, node by node."""
    found: dict[int, set[TopicPartition]] = {}
    for partition in set[TopicPartition]().union(*sessions):
        node = context.cluster.leader(*partition)
        if node != ANY:
            found.setdefault(node, set()).add(partition)
    return found


def _acknowledging(
    session: OwnShareSession, acknowledgements: Acknowledgements, body: Tree
) -> AcknowledgementBatches:
    found: AcknowledgementBatches = {}
    for partition, runs in acknowledgements.items():
        batches = session.acknowledge(partition, runs, bool(body.get("is_renew_ack")))
        if batches:
            found[partition] = batches
    return found


def _request(
    context: ReplayContext, live: LiveMember, session: OwnShareSession, named: AcknowledgementBatches
) -> Tree:
    """Return what both requests say: the member, its session, and partitions with what is acknowledged."""
    topics: dict[str, list[Tree]] = {}
    for (topic, partition), batches in named.items():
        fields = {"partition_index": partition, "acknowledgement_batches": batches}
        topics.setdefault(topic, []).append(fields)
    return {
        "group_id": context.names.group(live.group),
        "member_id": live.member_id,
        "share_session_epoch": FINAL_EPOCH if session.epoch == FINAL_EPOCH else session.next_epoch(),
        "topics": [
            {"topic_id": context.names.id_of(name), "partitions": each} for name, each in topics.items()
        ],
    }


def _forgotten(context: ReplayContext, partitions: set[TopicPartition]) -> list[Tree]:
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    return [{"topic_id": context.names.id_of(name), "partitions": each} for name, each in topics.items()]


def _part(
    context: ReplayContext, item: ReplayItem, version: int, tree: Tree, node: int, wait_ms: int = 0
) -> Part:
    if version < RENEWALS:
        tree = {name: value for name, value in tree.items() if name not in SINCE_RENEWALS}
    client_id = context.rewriter.client_id(item)
    return Part(item.request.key, version, tree, node, client_id, wait_ms=wait_ms)
