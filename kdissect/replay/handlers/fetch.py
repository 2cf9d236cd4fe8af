"""Fetch: all that the captured session is about, from the target's leaders, in the replayer's own sessions.

Positions are translated (see `target.offsets`). A client that reads on names no new position for partitions
that gave nothing; if the target gave something all the same, the replay goes on behind that, as any consumer
would. One captured broker responded as soon as any partition had something; several leaders may respond here,
and each of them waits no longer than that took. Racks, epochs and the cluster's id are left out: with a
foreign rack a leader responds with nothing and names another replica (KIP-392), for ever.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kdissect.protocol.error_codes import FETCH_SESSION_ERRORS, ErrorCode
from kdissect.protocol.records.batches import following_offset
from kdissect.replay.disposition import Disposition, SkipRequest
from kdissect.replay.effects import ANY, CONTROL, Answer, Coroutine, Part, ask, spawn
from kdissect.replay.handlers.fetch_encoding import (
    SESSIONS,
    FetchShape,
    FetchTemplate,
    fetch_part,
    fetch_template,
)
from kdissect.replay.handlers.fetch_scan import FetchedRecords, scan_fetch_response
from kdissect.replay.handlers.replay_context import ReplayContext
from kdissect.replay.identifiers import TopicPartition
from kdissect.replay.load.captured_fetch_sessions import (
    FINAL_EPOCH,
    NO_SESSION,
    FetchedPartitions,
    FetchScope,
    SessionRequest,
)
from kdissect.replay.load.prior_fetch_sessions import UNTOLD
from kdissect.replay.load.replay_input import ReplayItem
from kdissect.replay.rewrite.names import Tree
from kdissect.replay.settings import Pace
from kdissect.replay.target.fetch_sessions import (
    FetchChanges,
    FetchedPartition,
    PartitionsByNode,
    SessionTurn,
    partitions_by_node,
)

FIRST_WITH_BATCHES = 4  # Fetch versions below it get message sets
MOST_BYTES = 0x7FFFFFFF  # of a fetch that says no limit
NAMELESS = (Disposition.HEADLESS, "a topic id has no name in the capture")
NOT_THERE = (Disposition.DEPENDENCY, "none of its topics is on the target")


class FetchQuestion(NamedTuple):
    """What a captured fetch asks, as far as it is known before its turn."""

    request: SessionRequest
    sessionless: bool
    shape: FetchShape  # names no partition yet
    shared_shape: FetchShape  # the same if several leaders are asked
    template: FetchTemplate | None  # of a fetch that names no partition


def fetch(context: ReplayContext, item: ReplayItem, body: Tree) -> Coroutine[list[Answer]]:
    """Replay a Fetch request."""
    answers = yield from ask(fetch_parts(context, item, fetch_question(context, item, body)))
    for following in learn_fetched(context, item, answers):
        yield from spawn(following, CONTROL)
    return answers


def fetch_question(context: ReplayContext, item: ReplayItem, body: Tree) -> FetchQuestion:
    """Return what a captured fetch asks. Raise SkipRequest if the target has no version for it."""
    version = context.rewriter.version(item, least=FIRST_WITH_BATCHES)
    issued = context.loaded.sessions.get(item.request.index, NO_SESSION)
    request = context.fetches.captured.read(item.request.server, body, issued)
    sessionless = request.session[1] == NO_SESSION and request.epoch == FINAL_EPOCH
    wait_ms = scaled_wait_ms(context, body["max_wait_ms"])
    shape = FetchShape(
        version,
        context.rewriter.client_id(item),
        wait_ms,
        body["min_bytes"],
        body.get("max_bytes", MOST_BYTES),
        body.get("isolation_level", 0),
    )
    shared = shape._replace(max_wait_ms=shared_wait_ms(context, item, wait_ms))
    return FetchQuestion(request, sessionless or version < SESSIONS, shape, shared, fetch_template(shape))


def fetch_parts(context: ReplayContext, item: ReplayItem, question: FetchQuestion) -> list[Part]:
    """Return what leaders are asked when its turn has come.

    Raise SkipRequest for a fetch that cannot be asked.
    """
    scope = context.fetches.captured.follow(question.request)
    if scope is None:
        raise SkipRequest(*UNTOLD)
    if question.sessionless:
        nodes = partitions_by_node(_on_target(context, item, scope.partitions, scope.named))
        changes = FetchChanges()
    else:
        nodes, changes = _read_on(context, item, scope)
    if not nodes:
        if scope.partitions:
            nameless = all(topic.startswith("?") for topic, _ in scope.partitions)
            raise SkipRequest(*(NAMELESS if nameless else NOT_THERE))
        nodes = {ANY: {}}
    parts = []
    for node, partitions in nodes.items():
        turn = SessionTurn(NO_SESSION, FINAL_EPOCH, partitions, ())
        if not question.sessionless:
            session = context.fetches.own(item.request.connection, node)
            named, gone = changes.named.get(node, NOTHING), changes.gone.get(node, ())
            turn = session.next_turn(partitions, named, gone)
        if len(nodes) == 1:
            parts.append(fetch_part(context.names, question.shape, question.template, turn, node))
        else:
            template = fetch_template(question.shared_shape)
            parts.append(fetch_part(context.names, question.shared_shape, template, turn, node))
    context.notes.add_split(item, len(parts))
    return parts


NOTHING: dict[TopicPartition, Tree] = {}


def _read_on(
    context: ReplayContext, item: ReplayItem, scope: FetchScope
) -> tuple[PartitionsByNode, FetchChanges]:
    """Return what a connection reads by now, and what of it changed."""
    state = context.fetches.state(item.request.connection)
    turn = context.cluster.turn
    if state.is_of(scope, turn):
        named = {
            each.captured: each
            for each in (_on_target(context, item, scope.named, scope.named) if scope.named else ())
        }
        return state.nodes, state.update(named, scope.forgotten, context.positions)
    changes = state.replace(scope, turn, _on_target(context, item, scope.partitions, scope.named))
    for node in changes.gone.keys() - state.nodes.keys():  # it is asked no more, so its session ends
        context.fetches.drop(item.request.connection, node)
    return state.nodes, changes


def _on_target(
    context: ReplayContext, item: ReplayItem, partitions: FetchedPartitions, named: FetchedPartitions
) -> Iterator[FetchedPartition]:
    """Return partitions with their leaders and positions on the target.

    `named` are those that the request names itself.
    """
    client, positions = client_of(item), context.positions
    for captured, fields in partitions.items():
        topic, number = context.names.topic(captured[0]), captured[1]
        known = context.cluster.topics.get(topic)
        if known is None or number not in known.leaders:
            context.notes.add(item, f"without {captured[0]}-{number}: not on the target")
            continue
        offsets, position = positions.partition(captured), positions.client(client, captured)
        captured_offset = fields["fetch_offset"]
        if captured not in named and position.offset is not None:
            offset = position.offset
        else:
            offset = positions.translate(captured, captured_offset, client).offset
        sent = {
            "partition": number,
            "fetch_offset": offset,
            "partition_max_bytes": fields["partition_max_bytes"],
        }
        leader = context.cluster.leader(topic, number)
        yield FetchedPartition(
            captured, leader, (topic, number), captured_offset, sent, position, offsets, offsets.turn
        )


def scaled_wait_ms(context: ReplayContext, captured_ms: int) -> int:
    """Return how long a fetch may wait for data: as captured at this speed, hardly at all with asap."""
    if captured_ms <= 0:
        return 0
    if context.settings.pace is Pace.ASAP:
        return 1
    return max(int(captured_ms / context.settings.speed), 1)


WAITS_MS = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
"""Few, since a fetch is encoded once for each of them."""


def shared_wait_ms(context: ReplayContext, item: ReplayItem, wait_ms: int) -> int:
    """Return how long each of several leaders may wait: about as long as the captured broker took.

    That one responded when the first partition had something. A leader with nothing would delay those who
    have something, the client's next fetch, and all that comes behind it.
    """
    took_ns = item.request.service_ns
    if took_ns is None:
        return wait_ms
    took_ms = took_ns / 1e6 / context.settings.speed
    return min(WAITS_MS[bisect_right(WAITS_MS, took_ms) - 1], wait_ms)


def client_of(item: ReplayItem) -> str:
    """Return whose place in a log it is: a client goes on where it was, on whichever connection."""
    return item.client_id or f"connection {item.request.connection}"


def learn_fetched(context: ReplayContext, item: ReplayItem, answers: list[Answer]) -> list[Coroutine[None]]:
    """Learn how far a fetch went, and what became of its sessions.

    Return what has to be asked of the target now.
    """
    following: list[Coroutine[None]] = []
    for answer in answers:
        scanned = None
        if answer.frame is not None:
            scanned = scan_fetch_response(answer.frame, answer.part.version)
        if scanned is None:
            following += _learn_decoded(context, item, answer)
        else:
            answer.mark_without_error()
            _learn_session(context, item, answer, scanned.session, ErrorCode.NONE)
            _learn_partitions(context, item, scanned.partitions)
    if context.leaders.moved(answers):
        following.append(context.leaders.refresh())
    return following


def _learn_partitions(context: ReplayContext, item: ReplayItem, partitions: Iterable[FetchedRecords]) -> None:
    client, names, positions = client_of(item), context.names, context.positions
    for each in partitions:
        target = each.topic if isinstance(each.topic, str) else names.name_of(each.topic)
        name = names.captured_name(target)
        if name is not None:
            partition = (name, each.partition)
            positions.set_bounds(partition, each.log_start, each.high_watermark)
            if each.following is not None:
                positions.add_fetched(client, partition, each.following)


def _learn_session(
    context: ReplayContext, item: ReplayItem, answer: Answer, session_id: int, error: int
) -> None:
    request = answer.part.body
    session = context.fetches.own_if_any(item.request.connection, answer.part.node)
    epoch = request.get("session_epoch", FINAL_EPOCH)
    if session is not None and epoch != FINAL_EPOCH:
        session.take_response((request["session_id"], epoch), session_id, error)


def _learn_decoded(context: ReplayContext, item: ReplayItem, answer: Answer) -> list[Coroutine[None]]:
    """Learn from a response with an error, or of an old version.

    Return what has to be asked of the target now.
    """
    body = answer.body
    error = body.get("error_code", ErrorCode.NONE) if body else ErrorCode.UNKNOWN_SERVER_ERROR
    _learn_session(context, item, answer, body.get("session_id", NO_SESSION), error)
    if error in FETCH_SESSION_ERRORS:
        context.notes.counts["fetch sessions begun again"] += 1
    out_of_range = False
    partitions: list[FetchedRecords] = []
    for topic in body.get("responses") or ():
        target = topic.get("topic") or topic.get("topic_id", b"")
        for each in topic["partitions"]:
            out_of_range |= each["error_code"] == ErrorCode.OFFSET_OUT_OF_RANGE
            if not each["error_code"]:
                records = each["records"] or b""
                number, end = each["partition_index"], each["high_watermark"]
                following = following_offset(records)
                start = each.get("log_start_offset", -1)
                partitions.append(FetchedRecords(target, number, end, start, following))
    _learn_partitions(context, item, partitions)
    return [context.discovery.learn_bounds()] if out_of_range else []
