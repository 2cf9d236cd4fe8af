"""ShareFetch and ShareAcknowledge (KIP-932), in sessions of the replayer's own.

A captured fetch goes to the leaders that its session's partitions have on the target. Its acknowledgments
go along, and to every other node that has handed out records of those partitions. All requests of a member
to one node share a connection, since the target ends a session with the connection that it came by.

A cluster makes the topic with the state of share groups at their first use. Until it is there, fetches are
refused with an error that says nothing, and are sent again for some seconds.
"""

from collections.abc import Iterable
from typing import TypeAlias

from kdissect.protocol.error_codes import SHARE_SESSION_ERRORS, ErrorCode
from kdissect.protocol.schema.registry import api_name
from kdissect.replay.disposition import NOT_IN, Disposition, SkipRequest
from kdissect.replay.effects import ANY, Answer, Coroutine, Part, ask, pause
from kdissect.replay.handlers.fetch_patience import scaled_wait_ms, shared_wait_ms
from kdissect.replay.handlers.prior_member_joins import member_if_any
from kdissect.replay.handlers.replay_context import ReplayContext
from kdissect.replay.handlers.sending import until_group_allows
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
AGAIN_NS, MOST_PAUSES = 250_000_000, 20  # until the topic with the state of share groups is there
USUAL_RECORDS = 500  # max.poll.records of a client that nobody configured
LIMITS = ("min_bytes", "max_bytes", "max_records", "batch_size", "share_acquire_mode", "is_renew_ack")

AcknowledgementBatches: TypeAlias = dict[TopicPartition, list[Tree]]
"""Partition of the target -> the batches that acknowledge, as the request has them."""


def fetch(context: ReplayContext, item: ReplayItem, body: Tree) -> Coroutine[list[Answer]]:
    """Fetch what the captured session is about, and acknowledge what was handed out."""
    if body["share_session_epoch"] == FINAL_EPOCH:
        raise SkipRequest(Disposition.POLICY, "sessions are closed by acknowledging")
    yield from until_group_allows(context, item)
    version = _version(context, item, body)
    live = yield from _member(context, body)
    member = context.shares.of(live)
    wanted = member.follow(item.request.server, body, context.names)
    if not wanted:  # its session began before the capture: it is about what the target has assigned
        wanted |= _assigned(context, live)
    by_node = _by_node(context, member.captured.values())
    nodes = {context.cluster.leader(*partition) for partition in wanted} - {ANY}
    if not nodes:
        raise SkipRequest(Disposition.DEPENDENCY, "none of its partitions is on the target")
    wait_ms = scaled_wait_ms(context, body["max_wait_ms"])
    if len(nodes) > 1:
        wait_ms = shared_wait_ms(context, item, wait_ms)
    limits = {
        "max_records": USUAL_RECORDS,
        "batch_size": USUAL_RECORDS,
        **{name: body[name] for name in LIMITS if name in body},
        "max_wait_ms": wait_ms,
    }
    acknowledgements = acknowledgements_in(body, context.names)
    parts = []
    for node in sorted(nodes):
        session, here = member.sessions.setdefault(node, OwnShareSession()), by_node[node]
        batches: AcknowledgementBatches = {partition: [] for partition in here - session.partitions}
        if session.epoch != INITIAL_EPOCH:
            batches |= _acknowledging(session, acknowledgements, body)
        tree = _request(context, live, session, batches) | limits
        tree["forgotten_topics_data"] = _forgotten(context, session.partitions - here)
        session.partitions = set(here)
        parts.append(_part(context, item, version, tree, node, wait_ms))
    answers = yield from _send(context, item, live, member, parts)
    return (yield from _until_state_is_kept(context, item, live, member, answers))


def acknowledge(context: ReplayContext, item: ReplayItem, body: Tree) -> Coroutine[list[Answer]]:
    """Acknowledge what was handed out; with the last captured session the replayer's own ones end."""
    yield from until_group_allows(context, item)
    version = _version(context, item, body)
    live = yield from _member(context, body)
    member = context.shares.of(live)
    member.follow(item.request.server, body, context.names)
    closes = body["share_session_epoch"] == FINAL_EPOCH
    ends = closes and not member.captured
    acknowledgements, parts = acknowledgements_in(body, context.names), list[Part]()
    for node, session in sorted(member.sessions.items()):
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
    return (yield from _send(context, item, live, member, parts))


def learn_acquired(context: ReplayContext, session: OwnShareSession, answer: Answer) -> None:
    """Learn what the target handed out, or that the session is lost."""
    body, epoch = answer.body, answer.part.body["share_session_epoch"]
    if not body or body["error_code"] in SHARE_SESSION_ERRORS:
        if epoch < session.epoch:  # else it was of a session that is forgotten already
            session.forget()
            context.notes.counts["share sessions begun again"] += 1
        return
    for topic in body["responses"]:
        name = context.names.name_of(topic["topic_id"]) or ""
        for each in topic["partitions"]:
            ranges = [
                (batch["first_offset"], batch["last_offset"]) for batch in each.get("acquired_records") or ()
            ]
            if ranges:
                session.acquired.setdefault((name, each["partition_index"]), []).extend(ranges)


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
    _learn(context, member, answers)
    yield from context.leaders.refresh_if_moved(answers)
    return answers


def _until_state_is_kept(
    context: ReplayContext, item: ReplayItem, live: LiveMember, member: ShareMember, answers: list[Answer]
) -> Coroutine[list[Answer]]:
    """Fetch again where the target keeps no state of share groups yet, unless the capture had an error too.

    Return the last answer of each node: it leaves out partitions that have no error any more.
    """
    last = answers
    for _ in range(MOST_PAUSES):
        refused = [each for each in last if ErrorCode.UNKNOWN_SERVER_ERROR in each.errors]
        if not refused or item.error:
            break
        context.notes.counts["fetches of share groups sent again"] += 1
        yield from pause(AGAIN_NS)
        parts = []
        for answer in refused:
            session = member.sessions.setdefault(answer.part.node, OwnShareSession())
            if answer.body["error_code"]:  # of the whole request: it may have begun no session
                session.epoch = INITIAL_EPOCH
            begins = session.epoch == INITIAL_EPOCH
            told: AcknowledgementBatches = {each: [] for each in session.partitions} if begins else {}
            tree = answer.part.body | {"forgotten_topics_data": []} | _request(context, live, session, told)
            parts.append(answer.part._replace(body=tree, again=True))
        last = yield from ask(parts, synthetic=True, owner=("share", live.group, live.member_id))
        _learn(context, member, last)
        again = {each.part.node for each in last}
        answers = [each for each in answers if each.part.node not in again] + last
    return answers


def _learn(context: ReplayContext, member: ShareMember, answers: list[Answer]) -> None:
    for answer in answers:
        session = member.sessions.get(answer.part.node)
        if session is not None:
            learn_acquired(context, session, answer)


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
