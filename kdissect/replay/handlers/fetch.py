"""Fetch: all that the captured session is about, from the leaders of the target, in sessions of our own.

Positions are translated (see `offsets`). A client that goes on reading says no new position for partitions that gave
nothing; where the target gave something all the same, we go on behind it, as any consumer would. What one broker answered
as soon as any partition had something may be answered by several here: each of them waits no longer than that took. Racks,
epochs and the cluster's id are left out: with a foreign rack a leader answers nothing and names another replica, for ever.
"""

import struct
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.codec.messages import encode_request
from kdissect.protocol.error_codes import FETCH_SESSION_ERRORS, ErrorCode
from kdissect.replay.disposition import Disposition
from kdissect.replay.effects import (
    ANY,
    Answer,
    Ask,
    Course,
    Part,
)
from kdissect.replay.handlers.discover import learn_bounds
from kdissect.replay.handlers.fetch_scan import after_last_record, glance
from kdissect.replay.handlers.replay_context import CONTROL, ReplayContext
from kdissect.replay.load.analysis import ReplayItem
from kdissect.replay.load.prior_fetch_sessions import UNTOLD
from kdissect.replay.rewrite.roles import SkipRequest, Tree
from kdissect.replay.rewrite.versions import TOPIC_IDS_IN_FETCH
from kdissect.replay.settings import Pace
from kdissect.replay.target.fetch_sessions import (
    FINAL_EPOCH,
    NO_SESSION,
    Told,
    Wanted,
)
from kdissect.replay.target.fetch_state import (
    Changes,
    Entry,
    Nodes,
    Reading,
    by_node,
)
from kdissect.replay.target.producers import Where

SESSIONS, RACKS, LAST_WITH_REPLICA = 7, 11, 14
OLDEST_OF_BATCHES = 4
NAMELESS = (Disposition.HEADLESS, "a topic id has no name in the capture")
NOT_THERE = (Disposition.DEPENDENCY, "none of its topics is on the target")
SESSION = struct.Struct(">ii")  # its id and epoch


class Question(NamedTuple):
    """What a captured fetch asks, as far as it is known before its turn."""

    told: Told
    alone: bool  # outside of any session
    of_all: "Asked"  # names no partition yet
    of_each: "Asked"  # the same where several leaders are asked
    mould: "Mould | None"  # of a fetch that names none


def fetch(stage: ReplayContext, item: ReplayItem, body: Tree) -> Course:
    """Replay a Fetch request."""
    parts = parts_now(stage, item, question_of(stage, item, body))
    answers: list[Answer] = yield Ask(tuple(parts))
    learn(stage, item, answers)
    return answers


def question_of(stage: ReplayContext, item: ReplayItem, body: Tree) -> Question:
    """Say what a captured fetch asks. Raises SkipRequest if the target has no version for it."""
    version = stage.version(item, least=OLDEST_OF_BATCHES)
    issued = stage.loaded.sessions.get(item.request.index, NO_SESSION)
    told = stage.fetched.told(item.request.server, body, issued)
    outside = told.place[1] == NO_SESSION and told.epoch == FINAL_EPOCH
    wait_ms = waiting_ms(stage, body["max_wait_ms"])
    of_all = Asked(
        version,
        stage.client_id(item),
        wait_ms,
        body["min_bytes"],
        body.get("max_bytes", 0x7FFFFFFF),
        body.get("isolation_level", 0),
        "",  # racks of the captured cluster mean nothing on the target
    )
    of_each = of_all._replace(max_wait_ms=waiting_together_ms(stage, item, wait_ms))
    return Question(told, outside or version < SESSIONS, of_all, of_each, _mould(of_all))


def parts_now(stage: ReplayContext, item: ReplayItem, question: Question) -> list[Part]:
    """Give what leaders are asked, by what is known when its turn has come. Raises SkipRequest for what cannot be asked."""
    found = stage.fetched.wanted(question.told)
    if found is None:
        raise SkipRequest(*UNTOLD)
    wanted, said, gone = found
    if question.alone:
        nodes, changes = by_node(_entries(stage, item, wanted, said)), Changes()
    else:
        nodes, changes = _read_on(stage, item, wanted, said, gone)
    if not nodes:
        if wanted:
            raise SkipRequest(*(NAMELESS if all(name.startswith("?") for name, _ in wanted) else NOT_THERE))
        nodes = {ANY: {}}
    asked = question.of_all if len(nodes) == 1 else question.of_each
    parts = [_part(stage, item, question, asked, node, nodes[node], changes) for node in nodes]
    if len(parts) > 1:
        stage.counts["split"] += 1
        stage.note(item, f"split for {len(parts)} leaders")
    return parts


def learn(stage: ReplayContext, item: ReplayItem, answers: list[Answer]) -> None:
    """Take in what came of it."""
    for answer in answers:
        _learn(stage, item, answer)
    stage.heed(answers)


def _read_on(
    stage: ReplayContext, item: ReplayItem, wanted: Wanted, said: Wanted, gone: Sequence[Where]
) -> tuple[Nodes, Changes]:
    """Find what a connection reads by now, and what of it changed."""
    reading = stage.readings.setdefault(item.request.connection, Reading())
    turn = stage.topology.turn
    if reading.wanted is wanted and reading.turn == turn:
        named = {entry.where: entry for entry in _entries(stage, item, said, said)} if said else {}
        return reading.nodes, reading.go_on(named, gone, stage.positions)
    changes = reading.anew(wanted, turn, _entries(stage, item, wanted, said))
    for node in changes.gone.keys() - reading.nodes.keys():  # it is not told, so its session ends
        stage.own_sessions.pop((item.request.connection, node), None)
    return reading.nodes, changes


def _entries(stage: ReplayContext, item: ReplayItem, wanted: Wanted, said: Wanted) -> Iterable[Entry]:
    """Give partitions with their leaders and the target's positions."""
    whose, positions = whose_positions(item), stage.positions
    for where, fields in wanted.items():
        topic = stage.names.topic(where[0])
        known = stage.topology.topics.get(topic)
        if known is None or where[1] not in known.leaders:
            stage.note(item, f"without {where[0]}-{where[1]}: not on the target")
            continue
        captured = offset = fields["fetch_offset"]
        following, partition = positions.following(whose, where), positions.known(where)
        if where not in said and following.offset is not None:
            offset = following.offset
        else:
            offset = positions.translate(where, captured, whose).offset
        asked = {
            "partition": where[1],
            "fetch_offset": offset,
            "partition_max_bytes": fields["partition_max_bytes"],
        }
        led = stage.topology.leader(topic, where[1]), (topic, where[1])
        yield Entry(where, led, captured, asked, following, partition, partition.turn)


def _part(
    stage: ReplayContext,
    item: ReplayItem,
    question: Question,
    asked: "Asked",
    node: int,
    wanted: dict[Where, Tree],
    changes: Changes,
) -> Part:
    mould = question.mould if asked is question.of_all else _mould(asked)
    version = asked.version
    named: Mapping[Where, Tree] = wanted
    forgotten: Sequence[Where] = ()
    session_id, epoch = NO_SESSION, FINAL_EPOCH
    if not question.alone:
        session = stage.own_session(item.request.connection, node)
        session_id, epoch, named, forgotten = session.request(
            wanted, changes.named.get(node, NOTHING), changes.gone.get(node, ())
        )
    if named or forgotten:
        asked = Asked(
            *asked[:-2],
            tuple([(_named(stage, where[0], version), where[1], each["partition_max_bytes"]) for where, each in named.items()]),
            tuple([(_named(stage, where[0], version), where[1]) for where in forgotten]),
        )  # fmt: skip
        mould = _mould(asked) if len(named) <= MOST_OFFSETS else None
    session_too: Tree = {"session_id": session_id, "session_epoch": epoch} if version >= SESSIONS else {}
    if mould is None:
        tree = _tree(asked, [each["fetch_offset"] for each in named.values()]) | session_too
        return Part(ApiKey.FETCH, version, tree, node, asked.client_id, wait_ms=asked.max_wait_ms)
    heads = [(mould.session, SESSION.pack(session_id, epoch))] if session_too else []
    for at, each in zip(mould.offsets, named.values(), strict=True):
        heads.append((at, each["fetch_offset"].to_bytes(8, "big", signed=True)))
    heads.sort()  # a topic may come again behind others; in the frame its partitions stand together
    return Part(
        ApiKey.FETCH,
        version,
        session_too,
        node,
        asked.client_id,
        False,
        asked.max_wait_ms,
        mould.frame,
        False,
        tuple(heads),
    )


NOTHING: dict[Where, Tree] = {}


class Asked(NamedTuple):
    """All of a fetch but its session and its offsets."""

    version: int
    client_id: str | None
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    rack_id: str
    named: tuple[tuple[str | bytes, int, int], ...] = ()  # topic, partition, most bytes
    forgotten: tuple[tuple[str | bytes, int], ...] = ()


class Mould(NamedTuple):
    """An encoded fetch with its length, and where its session and its offsets stand: what remains is to lay them over it."""

    frame: bytes
    session: int
    offsets: tuple[int, ...]


MOST_OFFSETS = 16  # in a mould: what names more is not often asked for again
OPEN = 0x6B64_6973_7365_6300  # numbers from here on stand for offsets


@lru_cache(1 << 13)
def _mould(asked: Asked) -> Mould | None:
    """Encode a fetch with numbers that can be found again; None if they are not to be told from the rest."""
    offsets = [OPEN + number for number in range(len(asked.named))]
    tree = _tree(asked, offsets)
    session = OPEN + 0xFF
    if asked.version >= SESSIONS:
        tree["session_id"], tree["session_epoch"] = session >> 32, session & 0xFFFFFFFF
    header = {
        "request_api_key": ApiKey.FETCH,
        "request_api_version": asked.version,
        "correlation_id": 0,
        "client_id": asked.client_id,
    }
    frame = encode_request(header, tree)
    frame = len(frame).to_bytes(4, "big") + frame
    sought = [each.to_bytes(8, "big") for each in (session, *offsets)]
    if any(frame.count(each) > 1 for each in sought):
        return None
    at, *places = (frame.find(each) for each in sought)
    return Mould(frame, at, tuple(places))


def _tree(asked: Asked, offsets: Sequence[int]) -> Tree:
    tree: Tree = {
        "max_wait_ms": asked.max_wait_ms,
        "min_bytes": asked.min_bytes,
        "max_bytes": asked.max_bytes,
        "isolation_level": asked.isolation_level,
    }
    if asked.version >= RACKS:
        tree["rack_id"] = asked.rack_id
    if asked.version <= LAST_WITH_REPLICA:
        tree["replica_id"] = -1
    name = "topic_id" if asked.version >= TOPIC_IDS_IN_FETCH else "topic"
    topics: dict[str | bytes, list[Tree]] = {}
    for (topic, partition, most), offset in zip(asked.named, offsets, strict=True):
        fields = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": most}
        topics.setdefault(topic, []).append(fields)
    tree["topics"] = [{name: topic, "partitions": each} for topic, each in topics.items()]
    if asked.forgotten:
        gone: dict[str | bytes, list[int]] = {}
        for topic, partition in asked.forgotten:
            gone.setdefault(topic, []).append(partition)
        tree["forgotten_topics_data"] = [{name: topic, "partitions": each} for topic, each in gone.items()]
    return tree


def waiting_ms(stage: ReplayContext, captured_ms: int) -> int:
    """Say how long a fetch may wait for data: as long as captured at this speed, and hardly at all where nothing waits."""
    if captured_ms <= 0:
        return 0
    if stage.settings.pace is Pace.ASAP:
        return 1
    return max(int(captured_ms / stage.settings.speed), 1)


# Few, since a fetch is encoded once for each of them.
WAITS_MS = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)


def waiting_together_ms(stage: ReplayContext, item: ReplayItem, wait_ms: int) -> int:
    """Say how long each of several leaders may wait: about as long as the captured broker took, and not longer.

    That one answered when the first partition had something. Who has nothing would hold up those who have, the client's next fetch,
    and all that comes behind it.
    """
    took_ns = item.request.service_ns
    if took_ns is None:
        return wait_ms
    took_ms = took_ns / 1e6 / stage.settings.speed
    return min(WAITS_MS[bisect_right(WAITS_MS, took_ms) - 1], wait_ms)


def _named(stage: ReplayContext, topic: str, version: int) -> str | bytes:
    return stage.names.id_of(topic) if version >= TOPIC_IDS_IN_FETCH else topic


def whose_positions(item: ReplayItem) -> str:
    """Say whose place in a log it is: a client goes on where it was, on whichever connection."""
    return item.client_id or f"connection {item.request.connection}"


def _learn(stage: ReplayContext, item: ReplayItem, answer: Answer) -> None:
    """Take in how far this fetch went, and what became of the session."""
    found = glance(answer.frame, answer.part.version) if answer.frame is not None else None
    if found is None:
        _learn_all(stage, item, answer)
        return
    answer.all_well()
    _learn_session(stage, item, answer, found.session, 0)
    whose = whose_positions(item)
    for each in found.partitions:
        target = each.topic if isinstance(each.topic, str) else stage.names.name_of(each.topic)
        name = stage.captured_name(target)
        if name is not None:
            where = (name, each.partition)
            stage.positions.target_bounds(where, each.log_start, each.high_watermark)
            if each.following is not None:
                stage.positions.fetched(whose, where, each.following)


def _learn_session(
    stage: ReplayContext, item: ReplayItem, answer: Answer, session_id: int, error: int
) -> None:
    asked = answer.part.body
    session = stage.own_sessions.get((item.request.connection, answer.part.node))
    epoch = asked.get("session_epoch", FINAL_EPOCH)
    if session is not None and epoch != FINAL_EPOCH:
        session.answered((asked["session_id"], epoch), session_id, error)


def _learn_all(stage: ReplayContext, item: ReplayItem, answer: Answer) -> None:
    """Take in an answer in which something is wrong, or of an old version."""
    body = answer.body
    error = body.get("error_code", 0) if body else -1
    _learn_session(stage, item, answer, body.get("session_id", NO_SESSION), error)
    if error in FETCH_SESSION_ERRORS:
        stage.counts["fetch sessions begun again"] += 1
    for topic in body.get("responses") or ():
        target = topic.get("topic") or stage.names.name_of(topic.get("topic_id", b""))
        name = stage.captured_name(target)
        for each in topic["partitions"]:
            if each["error_code"] == ErrorCode.OFFSET_OUT_OF_RANGE:
                stage.spawn(learn_bounds(stage), CONTROL)
            if each["error_code"] or name is None:
                continue
            where = (name, each["partition_index"])
            stage.positions.target_bounds(where, each.get("log_start_offset", -1), each["high_watermark"])
            records = each["records"] or b""
            following = after_last_record(records, 0, len(records))
            if following is not None:
                stage.positions.fetched(whose_positions(item), where, following)
