"""Fetch: all that the captured session is about, from the leaders of the target, in sessions of our own.

Positions are translated (see `offsets`). A client that goes on reading says no new position for partitions that gave
nothing; where the target gave something all the same, we go on behind it, as any consumer would. Racks, epochs and the cluster's
id are left out: with a foreign rack a leader answers nothing and names another replica, for ever.
"""

from kdissect.protocol.record_sets import PREFIX
from kdissect.replay.accounting import Bucket
from kdissect.replay.courses.stage import CONTROL, Stage
from kdissect.replay.courses.target import learn_bounds
from kdissect.replay.loading.items import Item
from kdissect.replay.loading.sessions import UNTOLD
from kdissect.replay.mapping.producers import Where
from kdissect.replay.mapping.sessions import FINAL_EPOCH, NO_SESSION, OwnSession, Wanted
from kdissect.replay.rewriting.roles import Refused, Tree
from kdissect.replay.rewriting.versions import TOPIC_IDS_IN_FETCH
from kdissect.replay.settings import Pace
from kdissect.replay.steps import ANY, Answer, Ask, Course, Part

SESSIONS, RACKS, ISOLATION, MAX_BYTES = 7, 11, 4, 3
OLDEST_OF_BATCHES = 4
OFFSET_OUT_OF_RANGE = 1
FETCH_SESSION_ERRORS = frozenset({70, 71, 106})


def fetch(stage: Stage, item: Item, body: Tree) -> Course:
    """Replay a Fetch request."""
    version = stage.version(item, least=OLDEST_OF_BATCHES)
    if version < RACKS and body.get("rack_id"):
        body["rack_id"] = ""
    issued, starts = _captured_answer(stage, item)
    for where, start in starts.items():
        stage.positions.captured_start(where, start)
    if stage.off("fetch_sessions"):
        return (yield from _as_captured(stage, item, body, version))
    found = stage.fetched.wanted(item.request.server, body, issued)
    if found is None:
        raise Refused(*UNTOLD)
    wanted, said = found
    by_node = _by_leader(stage, item, wanted, said)
    if not by_node:
        if wanted:
            raise Refused(Bucket.POLICY, "none of its topics is on the target")
        by_node = {ANY: {}}
    parts = [_part(stage, item, body, version, node, partitions) for node, partitions in by_node.items()]
    if len(parts) > 1:
        stage.counts["split"] += 1
        stage.note(item, f"split for {len(parts)} leaders")
    answers: list[Answer] = yield Ask(tuple(parts))
    for answer in answers:
        _learn(stage, item, answer)
    stage.heed(answers)
    return answers


def _as_captured(stage: Stage, item: Item, body: Tree, version: int) -> Course:
    """Send the captured session as it stands: what a replay without sessions of its own would do."""
    body = stage.carried(item, body, version)
    answers = yield Ask(tuple((yield from stage.parts(item, version, body, body["max_wait_ms"]))))
    return list(answers)


def _by_leader(stage: Stage, item: Item, wanted: Wanted, said: Wanted) -> dict[int, dict[Where, Tree]]:
    """Give each node's partitions with the target's positions; the keys are the names on the target."""
    by_node: dict[int, dict[Where, Tree]] = {}
    whose = whose_positions(item)
    for where, fields in wanted.items():
        topic = stage.names.topic(where[0])
        known = stage.topology.topics.get(topic)
        if known is None or where[1] not in known.leaders:
            stage.note(item, f"without {where[0]}-{where[1]}: not on the target")
            continue
        offset = fields["fetch_offset"]
        if not stage.off("offsets"):
            offset = stage.positions.at(where, offset, whose, where in said)
        partition = {
            "partition": where[1],
            "fetch_offset": offset,
            "partition_max_bytes": fields["partition_max_bytes"],
        }
        node = stage.topology.leader(topic, where[1])
        by_node.setdefault(node, {})[topic, where[1]] = partition
    return by_node


def _part(
    stage: Stage, item: Item, body: Tree, version: int, node: int, partitions: dict[Where, Tree]
) -> Part:
    wait_ms = waiting_ms(stage, body["max_wait_ms"])
    tree: Tree = {"max_wait_ms": wait_ms, "min_bytes": body["min_bytes"], "replica_id": -1}
    tree["max_bytes"] = body.get("max_bytes", 0x7FFFFFFF)
    tree["isolation_level"] = body.get("isolation_level", 0)
    if version >= RACKS and stage.off("racks"):
        tree["rack_id"] = body.get("rack_id", "")
    if version > 14:
        del tree["replica_id"]
    named, forgotten = dict(partitions), list[Where]()
    if version >= SESSIONS:
        session = OwnSession()
        if (
            body.get("session_epoch", FINAL_EPOCH) == FINAL_EPOCH
            and body.get("session_id", NO_SESSION) == NO_SESSION
        ):
            tree["session_id"], tree["session_epoch"] = NO_SESSION, FINAL_EPOCH
        else:
            session = stage.own_sessions.setdefault((item.request.connection, node), session)
            tree["session_id"], tree["session_epoch"], named, forgotten = session.request(partitions)
    tree["topics"] = _topics(stage, named, version)
    if forgotten:
        tree["forgotten_topics_data"] = _forgotten(stage, forgotten, version)
    return Part(1, version, tree, node, stage.client_id(item), wait_ms=wait_ms)


def waiting_ms(stage: Stage, captured_ms: int) -> int:
    """Say how long a fetch may wait for data: as long as captured at this speed, and hardly at all where nothing waits."""
    if captured_ms <= 0:
        return 0
    if stage.settings.pace is Pace.ASAP:
        return 1
    return max(int(captured_ms / stage.settings.speed), 1)


def _topics(stage: Stage, partitions: dict[Where, Tree], version: int) -> list[Tree]:
    topics: dict[str, list[Tree]] = {}
    for (topic, _), fields in partitions.items():
        topics.setdefault(topic, []).append(fields)
    return [_named(stage, topic, version) | {"partitions": parts} for topic, parts in topics.items()]


def _forgotten(stage: Stage, partitions: list[Where], version: int) -> list[Tree]:
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return [_named(stage, topic, version) | {"partitions": parts} for topic, parts in topics.items()]


def _named(stage: Stage, topic: str, version: int) -> Tree:
    return {"topic_id": stage.names.id_of(topic)} if version >= TOPIC_IDS_IN_FETCH else {"topic": topic}


def whose_positions(item: Item) -> str:
    """Say whose place in a log it is: a client goes on where it was, on whichever connection."""
    return item.client_id or f"connection {item.request.connection}"


def _captured_answer(stage: Stage, item: Item) -> tuple[int, dict[Where, int]]:
    """Give the session that the captured answer opened, and where logs began."""
    body = stage.captured_answer(item)
    starts = {
        (stage.names.captured_topic(topic, "topic") or "", each["partition_index"]): each.get(
            "log_start_offset", -1
        )
        for topic in body.get("responses") or ()
        for each in topic["partitions"]
    }
    return body.get("session_id", NO_SESSION), starts


def _learn(stage: Stage, item: Item, answer: Answer) -> None:
    """Take in how far this fetch went, and what became of the session."""
    body = answer.body
    session = stage.own_sessions.get((item.request.connection, answer.part.node))
    asked = (
        answer.part.body.get("session_id", NO_SESSION),
        answer.part.body.get("session_epoch", FINAL_EPOCH),
    )
    if session is not None and asked[1] != FINAL_EPOCH:
        session.answered(asked, body.get("session_id", NO_SESSION), body.get("error_code", 0) if body else -1)
        if body.get("error_code", 0) in FETCH_SESSION_ERRORS:
            stage.counts["fetch sessions begun again"] += 1
    for topic in body.get("responses") or ():
        target = topic.get("topic") or stage.names.name_of(topic.get("topic_id", b""))
        name = stage.captured_name(target)
        for each in topic["partitions"]:
            if each["error_code"] == OFFSET_OUT_OF_RANGE:
                stage.spawn(learn_bounds(stage), CONTROL)
            if each["error_code"] or name is None:
                continue
            where = (name, each["partition_index"])
            stage.positions.target_bounds(where, each.get("log_start_offset", -1), each["high_watermark"])
            following = after_last_record(each["records"] or b"")
            if following is not None:
                stage.positions.fetched(whose_positions(item), where, following)


def after_last_record(records: bytes) -> int | None:
    """Give the offset behind the last whole batch; None if there is none."""
    at, following = 0, None
    while len(records) - at >= PREFIX + 15:
        stop = at + PREFIX + int.from_bytes(records[at + 8 : at + PREFIX], "big", signed=True)
        if stop > len(records) or stop <= at + PREFIX:
            break
        base = int.from_bytes(records[at : at + 8], "big", signed=True)
        delta = int.from_bytes(records[at + 23 : at + 27], "big", signed=True) if records[at + 16] == 2 else 0
        following, at = base + delta + 1, stop
    return following
