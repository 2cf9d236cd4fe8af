"""ShareFetch and ShareAcknowledge (KIP-932): fetches in sessions of our own, acknowledging what the target handed out.

A captured fetch goes to the leaders that its session's partitions have on the target; what it acknowledges goes along, and to
wherever else records of those partitions are held. All requests of a member to one node share a connection, since the target
ends a session with the connection that it came by.
"""

from collections.abc import Iterable

from kdissect.protocol.error_codes import SHARE_SESSION_ERRORS
from kdissect.protocol.schema.registry import api_name
from kdissect.replay.disposition import Disposition
from kdissect.replay.effects import (
    ANY,
    Answer,
    Ask,
    Coroutine,
    Course,
    Part,
)
from kdissect.replay.handlers.fetch import waiting_ms, waiting_together_ms
from kdissect.replay.handlers.prior_member_joins import NOT_IN, member_if_any
from kdissect.replay.handlers.replay_context import ReplayContext
from kdissect.replay.load.analysis import ReplayItem
from kdissect.replay.rewrite.roles import SkipRequest, Tree
from kdissect.replay.target.members import Live
from kdissect.replay.target.producers import Where
from kdissect.replay.target.share_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    Acks,
    OwnShareSession,
    ShareMember,
    acknowledged,
)

FIRST_VERSION, RENEWALS = 1, 2  # version 0 was an early access; members can renew what they hold
SINCE_RENEWALS = ("share_acquire_mode", "is_renew_ack")
USUAL_RECORDS = 500  # max.poll.records of a client that nobody configured
LIMITS = ("min_bytes", "max_bytes", "max_records", "batch_size", "share_acquire_mode", "is_renew_ack")
Named = dict[Where, list[Tree]]  # partition -> batches that acknowledge


def fetch(stage: ReplayContext, item: ReplayItem, body: Tree) -> Course:
    """Fetch what the captured session is about, and acknowledge what was handed out."""
    if body["share_session_epoch"] == FINAL_EPOCH:
        raise SkipRequest(Disposition.POLICY, "sessions are closed by acknowledging")
    version = _version(stage, item, body)
    live = yield from _live(stage, body)
    member = _member(stage, live)
    wanted = member.wanted(item.request.server, body, stage.names)
    if not wanted:  # its session began before the capture: it is about what the target has assigned
        wanted |= _assigned(stage, live)
    acks = acknowledged(body, stage.names)
    by_node = _by_node(stage, member.sets.values())
    nodes = {_leader(stage, where) for where in wanted} - {None}
    if not nodes:
        raise SkipRequest(Disposition.DEPENDENCY, "none of its topics is on the target")
    wait_ms = waiting_ms(stage, body["max_wait_ms"])
    if len(nodes) > 1:
        wait_ms = waiting_together_ms(stage, item, wait_ms)
    limits = {
        "max_records": USUAL_RECORDS,
        "batch_size": USUAL_RECORDS,
        **{name: body[name] for name in LIMITS if name in body},
    }
    parts = []
    for node in sorted(node for node in nodes if node is not None):
        session, here = member.sessions.setdefault(node, OwnShareSession()), by_node[node]
        named: Named = {where: [] for where in here - session.told}
        if session.epoch != INITIAL_EPOCH:
            named |= _acknowledging(session, acks, body)
        tree = _begun(stage, live, session, named) | limits | {"max_wait_ms": wait_ms}
        tree["forgotten_topics_data"] = _forgotten(stage, session.told - here)
        session.told = set(here)
        parts.append(_part(stage, item, version, tree, node, wait_ms))
    return (yield from _ask(stage, item, live, member, parts))


def acknowledge(stage: ReplayContext, item: ReplayItem, body: Tree) -> Course:
    """Acknowledge what was handed out; with the last captured session the own ones end."""
    version = _version(stage, item, body)
    live = yield from _live(stage, body)
    member = _member(stage, live)
    member.wanted(item.request.server, body, stage.names)
    ends = body["share_session_epoch"] == FINAL_EPOCH and not member.sets
    acks, parts = acknowledged(body, stage.names), list[Part]()
    for node, session in sorted(member.sessions.items()):
        named = _acknowledging(session, acks, body)
        if session.epoch == INITIAL_EPOCH or not (named or ends):
            continue
        if ends:
            session.epoch = FINAL_EPOCH
        tree = _begun(stage, live, session, named)
        if "is_renew_ack" in body:
            tree["is_renew_ack"] = body["is_renew_ack"]
        parts.append(_part(stage, item, version, tree, node))
    if ends:
        member.sessions.clear()
    if not parts and body["share_session_epoch"] == FINAL_EPOCH and member.sets:
        raise SkipRequest(Disposition.POLICY, "its session is one with others of its member, which go on")
    if not parts:
        raise SkipRequest(
            Disposition.DEPENDENCY, "the target has handed out nothing that could be acknowledged"
        )
    return (yield from _ask(stage, item, live, member, parts))


def _version(stage: ReplayContext, item: ReplayItem, body: Tree) -> int:
    version = stage.version(item, least=FIRST_VERSION)
    lost = [name for name in SINCE_RENEWALS if body.get(name)] if version < RENEWALS else []
    if lost and not stage.settings.allow_lossy:
        name = api_name(item.request.key)
        raise SkipRequest(
            Disposition.LOSSY, f"{name} v{item.request.version} as v{version} loses {', '.join(lost)}"
        )
    for name in lost:
        del body[name]
    return version


def _live(stage: ReplayContext, body: Tree) -> Coroutine:
    """Give who stands for the member; one that has left may still acknowledge."""
    live: Live | None = yield from member_if_any(stage, body["group_id"] or "", body["member_id"] or "")
    if live is None or not live.member_id:
        raise SkipRequest(Disposition.DEPENDENCY, NOT_IN)
    return live


def _assigned(stage: ReplayContext, live: Live) -> set[Where]:
    found = ((stage.names.name_of(each["topic_id"]), each["partitions"]) for each in live.owned)
    return {(name, partition) for name, partitions in found if name for partition in partitions}


def _member(stage: ReplayContext, live: Live) -> ShareMember:
    return stage.shares.setdefault((live.group, live.member_id), ShareMember())


def _ask(
    stage: ReplayContext, item: ReplayItem, live: Live, member: ShareMember, parts: list[Part]
) -> Course:
    if len(parts) > 1:
        stage.counts["split"] += 1
        stage.note(item, f"split for {len(parts)} leaders")
    answers: list[Answer] = yield Ask(tuple(parts), owner=("share", live.group, live.member_id))
    for answer in answers:
        session = member.sessions.get(answer.part.node)
        if session is not None:
            learn(stage, session, answer)
    stage.heed(answers)
    return answers


def learn(stage: ReplayContext, session: OwnShareSession, answer: Answer) -> None:
    """Take in what was handed out, or that the session is lost."""
    body, asked = answer.body, answer.part.body["share_session_epoch"]
    if not body or body["error_code"] in SHARE_SESSION_ERRORS:
        if asked < session.epoch:  # else it was of a session that is forgotten already
            session.forget()
            stage.counts["share sessions begun again"] += 1
        return
    for topic in body["responses"]:
        name = stage.names.name_of(topic["topic_id"]) or ""
        for each in topic["partitions"]:
            ranges = [
                (every["first_offset"], every["last_offset"]) for every in each.get("acquired_records") or ()
            ]
            if ranges:
                session.acquired.setdefault((name, each["partition_index"]), []).extend(ranges)


def _leader(stage: ReplayContext, where: Where) -> int | None:
    node = stage.topology.leader(*where)
    return None if node == ANY else node


def _by_node(stage: ReplayContext, sets: Iterable[set[Where]]) -> dict[int, set[Where]]:
    """Give what the member's sessions are about, node by node."""
    found: dict[int, set[Where]] = {}
    for where in set[Where]().union(*sets):
        node = _leader(stage, where)
        if node is not None:
            found.setdefault(node, set()).add(where)
    return found


def _acknowledging(session: OwnShareSession, acks: Acks, body: Tree) -> Named:
    found: Named = {}
    for where, runs in acks.items():
        batches = session.acknowledge(where, runs, bool(body.get("is_renew_ack")))
        if batches:
            found[where] = batches
    return found


def _begun(stage: ReplayContext, live: Live, session: OwnShareSession, named: Named) -> Tree:
    topics: dict[str, list[Tree]] = {}
    for (topic, partition), batches in named.items():
        topics.setdefault(topic, []).append(
            {"partition_index": partition, "acknowledgement_batches": batches}
        )
    return {
        "group_id": stage.names.group(live.group),
        "member_id": live.member_id,
        "share_session_epoch": FINAL_EPOCH if session.epoch == FINAL_EPOCH else session.next_epoch(),
        "topics": [
            {"topic_id": stage.names.id_of(name), "partitions": each} for name, each in topics.items()
        ],
    }


def _forgotten(stage: ReplayContext, partitions: set[Where]) -> list[Tree]:
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    return [{"topic_id": stage.names.id_of(name), "partitions": each} for name, each in topics.items()]


def _part(
    stage: ReplayContext, item: ReplayItem, version: int, tree: Tree, node: int, wait_ms: int = 0
) -> Part:
    if version < RENEWALS:
        tree = {name: value for name, value in tree.items() if name not in SINCE_RENEWALS}
    return Part(item.request.key, version, tree, node, stage.client_id(item), wait_ms=wait_ms)
