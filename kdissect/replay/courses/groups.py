"""Consumer groups, driven by role and not by copy (`--groups full`).

A join says what the captured member said, under the id that the target gave; whoever the *target* names leader sends the assignment,
which is the captured one under the live members' ids. Copied ids would give every member an empty assignment, without an
error. Where the target's members are others than the captured generation's, the captured partitions are dealt out
among those who are there. A live rebalance that the capture did not have is joined by the replayer's own requests.

KIP-848 groups have no leader: a heartbeat says the member's epoch and partitions as the target told them last.
"""

from uuid import NAMESPACE_OID, uuid5

from kdissect.protocol.errors import error_name
from kdissect.protocol.headers import decode_embedded, decode_response, encode_embedded
from kdissect.replay.accounting import Bucket
from kdissect.replay.courses.stage import Stage
from kdissect.replay.loading.items import Item
from kdissect.replay.mapping.members import Live
from kdissect.replay.rewriting.mentions import errors_of
from kdissect.replay.rewriting.roles import Refused, Tree, rewritten_embedded
from kdissect.replay.rewriting.versions import chosen_version
from kdissect.replay.steps import Answer, Course, Errand, Gate, Until

JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP, CONSUMER_HEARTBEAT = 11, 12, 13, 14, 68
MEMBER_ID_REQUIRED, UNKNOWN_MEMBER, ILLEGAL_GENERATION, REBALANCE = 79, 25, 22, 27
FENCED_EPOCH, STALE_EPOCH = 110, 113
LOST_PLACE = frozenset({UNKNOWN_MEMBER, ILLEGAL_GENERATION, REBALANCE})
LEAST_JOIN = 2  # 4.0 brokers dropped what is older
LONGEST_SESSION_MS = 1_800_000  # group.max.session.timeout.ms of a broker that nobody configured
JOINING, ASSIGNMENT, SUBSCRIPTION = 0, "ConsumerProtocolAssignment", "ConsumerProtocolSubscription"


def join(stage: Stage, item: Item, body: Tree) -> Course:
    """Join as the live member."""
    version = stage.version(item, least=LEAST_JOIN)
    group, captured = body["group_id"], body["member_id"]
    live = stage.members.live(group, captured) or Live(group, "")
    live.connection = item.request.connection
    if stage.settings.speed < 1:
        longer = int(body["session_timeout_ms"] / stage.settings.speed)
        body["session_timeout_ms"] = min(longer, LONGEST_SESSION_MS)
    if not stage.off("members"):
        body["member_id"] = live.member_id
    said = _captured_answer(stage, item)
    body = stage.carried(item, body, version)
    answer: Answer = yield from stage.insist(JOIN_GROUP, version, body, stage.client_id(item), item)
    if stage.off("members"):
        return [answer]
    # A captured join that did not get in comes again by itself: going further would leave a member that never syncs.
    answer = yield from _joined(
        stage, item, live, body, version, answer, stop_at_id=bool(said.get("error_code", -1))
    )
    for name in {captured, said.get("member_id") or captured}:
        if name:
            stage.members.learn(name, live)
    return [answer]


def _joined(
    stage: Stage, item: Item, live: Live, body: Tree, version: int, answer: Answer, stop_at_id: bool
) -> Errand:
    """Go on until the member is in, or the target gave it the id that the capture's next join will use."""
    while True:
        said = answer.body
        error = said.get("error_code") if said else None
        if error == MEMBER_ID_REQUIRED:
            live.member_id = said["member_id"]
            if stop_at_id:
                return answer
        elif error == UNKNOWN_MEMBER and body["member_id"]:
            live.member_id = ""
        else:
            break
        body = body | {"member_id": live.member_id}
        answer = yield from stage.insist(JOIN_GROUP, version, body, stage.client_id(item))
    if said and not said["error_code"]:
        live.member_id, live.generation = said["member_id"], said["generation_id"]
        live.leader, live.protocol = said["leader"], said.get("protocol_name")
        live.others = [each["member_id"] for each in said["members"]]
        live.join, live.join_version = body | {"member_id": live.member_id}, version
    return answer


def sync(stage: Stage, item: Item, body: Tree) -> Course:
    """Take the assignment, or give it if the target made this member the leader."""
    version = stage.version(item)
    live = stage.members.live(body["group_id"], body["member_id"])
    if stage.off("members"):
        body["assignments"] = [
            each | {"assignment": rewritten_embedded(ASSIGNMENT, each["assignment"], stage.names)}
            for each in body["assignments"]
        ]
        body = stage.carried(item, body, version)
        return [(yield from stage.insist(SYNC_GROUP, version, body, stage.client_id(item), item))]
    if live is None or live.generation < 0:
        raise Refused(Bucket.DEPENDENCY, "its member did not get into the group")
    captured_generation = body["generation_id"]
    body["assignments"] = []
    body = stage.carried(item, body, version)
    _put(body, live, version)
    if live.leads:
        body["assignments"] = assignments(stage, live, captured_generation)
        stage.note(item, f"assigns to {len(body['assignments'])} members as the leader that the target named")
    return [(yield from as_member(stage, item, live, version, body))]


def as_member(stage: Stage, item: Item, live: Live, version: int, body: Tree) -> Errand:
    """Ask as a member; if the target rebalanced where the capture did not, join again and ask again, as a client would."""
    key = item.request.key
    answer: Answer = yield from stage.insist(key, version, body, stage.client_id(item), item)
    error = next(errors_of(key, version, answer.body), 0) if answer.body else 0
    if error not in LOST_PLACE or item.error:
        return answer
    joined = yield from rejoin(stage, item, live)
    if not joined:
        return answer
    stage.note(item, f"asked again after {error_name(error)}: the target rebalanced")
    generation = (
        "generation_id_or_member_epoch" if "generation_id_or_member_epoch" in body else "generation_id"
    )
    body = body | {"member_id": live.member_id, generation: live.generation}
    return (yield from stage.insist(key, version, body, stage.client_id(item)))


def _put(body: Tree, live: Live, version: int) -> None:
    body["member_id"], body["generation_id"] = live.member_id, live.generation
    if version >= 5:
        body["protocol_type"], body["protocol_name"] = "consumer", live.protocol


def assignments(stage: Stage, leader: Live, captured_generation: int) -> list[Tree]:
    """Give each live member the partitions that its captured one had, or deal them out if the members are others."""
    captured = stage.loaded.assignments.get((leader.group, captured_generation), {})
    known = stage.members.of_group(leader.group)
    by_live = {
        known[name].member_id: assigned for name, assigned in captured.items() if name in known and assigned
    }
    if captured and set(by_live) == set(leader.others):
        return [
            {"member_id": member, "assignment": rewritten_embedded(ASSIGNMENT, assigned, stage.names)}
            for member, assigned in by_live.items()
        ]
    partitions = _partitions(captured, stage) or _subscribed(leader, stage)
    dealt: dict[str, dict[str, list[int]]] = {member: {} for member in leader.others}
    for number, (topic, partition) in enumerate(partitions):
        dealt[leader.others[number % len(leader.others)]].setdefault(topic, []).append(partition)
    stage.counts["assignments dealt out anew"] += 1
    return [{"member_id": member, "assignment": _assignment(topics)} for member, topics in dealt.items()]


def _assignment(topics: dict[str, list[int]]) -> bytes:
    tree = {"assigned_partitions": [{"topic": name, "partitions": parts} for name, parts in topics.items()]}
    return encode_embedded(ASSIGNMENT, 0, tree)


def _partitions(captured: dict[str, bytes], stage: Stage) -> list[tuple[str, int]]:
    return [
        (stage.names.topic(topic["topic"]), partition)
        for assigned in captured.values()
        for topic in decode_embedded(ASSIGNMENT, assigned).value.get("assigned_partitions", ())
        for partition in topic["partitions"]
    ]


def _subscribed(leader: Live, stage: Stage) -> list[tuple[str, int]]:
    topics: set[str] = set()
    for protocol in leader.join.get("protocols", ()):
        topics.update(decode_embedded(SUBSCRIPTION, protocol["metadata"]).value.get("topics", ()))
    return [
        (topic, partition)
        for topic in sorted(topics)
        if topic in stage.topology.topics
        for partition in sorted(stage.topology.topics[topic].leaders)
    ]


def heartbeat(stage: Stage, item: Item, body: Tree) -> Course:
    """Say that the live member lives; go through a rebalance that only the target has."""
    version = stage.version(item)
    live = stage.members.live(body["group_id"], body["member_id"])
    if stage.off("members"):
        body = stage.carried(item, body, version)
        return [(yield from stage.insist(HEARTBEAT, version, body, stage.client_id(item), item))]
    if live is None or live.generation < 0:
        raise Refused(Bucket.DEPENDENCY, "its member did not get into the group")
    body = stage.carried(item, body, version)
    body["member_id"], body["generation_id"] = live.member_id, live.generation
    return [(yield from as_member(stage, item, live, version, body))]


def rejoin(stage: Stage, item: Item, live: Live) -> Errand:
    """Join and sync again by ourselves; tell whether that went well."""
    if live.rejoining is not None:
        return (yield Until(live.rejoining))
    if not live.join:
        return False
    gate = live.rejoining = Gate()
    stage.counts["rebalances joined by the replayer"] += 1
    try:
        client_id = stage.client_id(item)
        answer = yield from stage.insist(JOIN_GROUP, live.join_version, live.join, client_id)
        answer = yield from _joined(stage, item, live, live.join, live.join_version, answer, False)
        if not answer.body or answer.body["error_code"]:
            return False
        version = chosen_version(SYNC_GROUP, 3, stage.topology.versions.get(SYNC_GROUP)) or 0
        body: Tree = {"group_id": live.join["group_id"], "assignments": []}
        _put(body, live, version)
        if version >= 3:
            body["group_instance_id"] = live.join.get("group_instance_id")
        if live.leads:
            generations = [
                generation for group, generation in stage.loaded.assignments if group == live.group
            ]
            body["assignments"] = assignments(stage, live, max(generations, default=-1))
        answer = yield from stage.insist(SYNC_GROUP, version, body, client_id)
        return bool(answer.body) and not answer.body["error_code"]
    finally:
        live.rejoining = None
        gate.open()


def leave(stage: Stage, item: Item, body: Tree) -> Course:
    """Leave as the live members."""
    version = stage.version(item)
    group = body["group_id"]
    captured = [each["member_id"] for each in body["members"]] if "members" in body else [body["member_id"]]
    known = {name: stage.members.live(group, name) for name in captured if name}
    if not any(known.values()) and any(captured):
        raise Refused(Bucket.DEPENDENCY, "its member did not get into the group")
    for each in body.get("members", (body,)):
        live = known.get(each["member_id"])
        each["member_id"] = live.member_id if live else each["member_id"]
    body = stage.carried(item, body, version)
    answer: Answer = yield from stage.insist(LEAVE_GROUP, version, body, stage.client_id(item), item)
    for name in captured:
        stage.members.forget(group, name)
    return [answer]


def consumer_heartbeat(stage: Stage, item: Item, body: Tree) -> Course:
    """Heartbeat of a KIP-848 member."""
    version = stage.version(item)
    group, captured = body["group_id"], body["member_id"]
    said = _captured_answer(stage, item)
    live = stage.members.live(group, captured)
    if live is None:
        own = str(uuid5(NAMESPACE_OID, f"{stage.settings.run} {group} {captured}"))
        live = Live(group, own if captured and version >= 1 else "")
        if body["member_epoch"] > JOINING and body.get("subscribed_topic_names") is None:
            raise Refused(Bucket.HEADLESS, "its member joined before the capture began")
    live.connection = item.request.connection
    joining = body["member_epoch"] == JOINING or (body["member_epoch"] > 0 and live.generation <= 0)
    owned, body["topic_partitions"] = body["topic_partitions"], None
    body = stage.carried(item, body, version)
    if joining:
        body = {**{name: live.join[name] for name in live.join if body.get(name) is None}, **_present(body)}
        body["member_epoch"], body["topic_partitions"] = JOINING, []
        live.join = {name: value for name, value in body.items() if value is not None}
    elif body["member_epoch"] > 0:
        body["member_epoch"] = live.generation
        body["topic_partitions"] = live.owned if owned is not None else None
    body["member_id"] = live.member_id
    answer: Answer = yield from stage.insist(CONSUMER_HEARTBEAT, version, body, stage.client_id(item), item)
    _take_heartbeat(live, answer.body)
    for name in {captured, said.get("member_id") or captured}:
        if name:
            stage.members.learn(name, live)
    if body["member_epoch"] < 0:
        stage.members.forget(group, captured)
    return [answer]


def _present(body: Tree) -> Tree:
    return {name: value for name, value in body.items() if value is not None}


def _take_heartbeat(live: Live, said: Tree) -> None:
    if not said:
        return
    if said["error_code"] in (FENCED_EPOCH, STALE_EPOCH, UNKNOWN_MEMBER):
        live.generation, live.owned = JOINING, []
        return
    if said["error_code"]:
        return
    live.member_id = said.get("member_id") or live.member_id
    live.generation = said["member_epoch"]
    if said.get("assignment") is not None:
        live.owned = said["assignment"]["topic_partitions"]


def leave_all(stage: Stage) -> Errand:
    """Take all members that are left out of their groups: nobody should wait for their sessions to end."""
    for live in stage.members.all():
        if live.generation <= 0:
            continue
        if live.leader:
            version = chosen_version(LEAVE_GROUP, 3, stage.topology.versions.get(LEAVE_GROUP)) or 0
            group = stage.names.group(live.group)
            body: Tree = {"group_id": group, "members": [{"member_id": live.member_id}]}
            if version < 3:
                body = {"group_id": group, "member_id": live.member_id}
            yield from stage.insist(LEAVE_GROUP, version, body, None)
        else:
            body = {
                "group_id": stage.names.group(live.group),
                "member_id": live.member_id,
                "member_epoch": -1,
            }
            yield from stage.insist(CONSUMER_HEARTBEAT, 0, body, None)
        live.generation = -1


def _captured_answer(stage: Stage, item: Item) -> Tree:
    request = item.request
    answer = stage.frame(request.answer) if request.answer_whole else None
    return (decode_response(answer, request.key, request.version or 0).body or {}) if answer else {}
