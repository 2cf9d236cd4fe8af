"""Fetch: all that the captured session is about, from the target's leaders, in the replayer's own sessions.

A client that reads on goes on behind what the *target* gave it, so it reads each record once, as it did in
the capture; any other position is translated (see `target.offsets`). `fetch_patience` decides how long
leaders wait. Racks, epochs and the cluster's id are left out: with a
foreign rack a leader responds with nothing and names another replica (KIP-392), for ever.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kdissect.protocol.error_codes import FETCH_SESSION_ERRORS, ErrorCode
from kdissect.protocol.records.batches import whole_end
from kdissect.replay.disposition import Disposition, SkipRequest
from kdissect.replay.effects import ANY, CONTROL, Answer, Coroutine, Part, ask, spawn
from kdissect.replay.handlers.fetch_encoding import (
    SESSIONS,
    FetchShape,
    FetchTemplate,
    Patience,
    fetch_part,
    fetch_template,
)
from kdissect.replay.handlers.fetch_patience import (
    missing_before_fetch,
    most_bytes,
    note_patience,
    patience_by_node,
    scaled_wait_ms,
)
from kdissect.replay.handlers.fetch_scan import FetchedRecords, scan_fetch_response
from kdissect.replay.handlers.replay_context import ReplayContext
from kdissect.replay.handlers.sending import until_order_allows
from kdissect.replay.identifiers import TopicPartition
from kdissect.replay.load.captured_fetch_sessions import (
    FINAL_EPOCH,
    NO_SESSION,
    UNTOLD,
    FetchedPartitions,
    FetchScope,
    SessionRequest,
)
from kdissect.replay.load.replay_items import ReplayItem
from kdissect.replay.rewrite.names import Tree
from kdissect.replay.target.fetch_sessions import (
    FetchChanges,
    FetchedPartition,
    FetchState,
    SessionTurn,
)

FIRST_WITH_BATCHES = 4  # Fetch versions below it get message sets
MOST_BYTES = 0x7FFFFFFF  # of a fetch that says no limit
NAMELESS = (Disposition.HEADLESS, "a topic id has no name in the capture")
NOT_THERE = (Disposition.DEPENDENCY, "none of its partitions is on the target")


class FetchQuestion(NamedTuple):
    """Question of a captured fetch, as far as it is known before its turn."""

    request: SessionRequest
    sessionless: bool
    shape: FetchShape  # names no partition yet
    patience: Patience  # as captured, at the speed of the run
    template: FetchTemplate | None  # of a fetch that names no partition


def fetch(context: ReplayContext, item: ReplayItem, body: Tree) -> Coroutine[list[Answer]]:
    """Replay a Fetch request."""
    question = fetch_question(context, item, body)
    named = question.request.named
    yield from until_order_allows(context, lambda: missing_before_fetch(context, item, named))
    answers = yield from ask(fetch_parts(context, item, question))
    for following in learn_fetched(context, item, answers):
        yield from spawn(following, CONTROL)
    return answers


def fetch_question(context: ReplayContext, item: ReplayItem, body: Tree) -> FetchQuestion:
    """Return what a captured fetch asks. Raise SkipRequest if the target has no version for it."""
    version = context.rewriter.version(item, least=FIRST_WITH_BATCHES)
    issued = context.loaded.sessions.get(item.request.index, NO_SESSION)
    request = context.fetches.captured.read(item.request.server, body, issued)
    sessionless = request.session[1] == NO_SESSION and request.epoch == FINAL_EPOCH
    patience = Patience(scaled_wait_ms(context, body["max_wait_ms"]), body["min_bytes"])
    shape = FetchShape(
        version,
        context.rewriter.client_id(item),
        body.get("max_bytes", MOST_BYTES),
        body.get("isolation_level", 0),
    )
    return FetchQuestion(request, sessionless or version < SESSIONS, shape, patience, fetch_template(shape))


def fetch_parts(context: ReplayContext, item: ReplayItem, question: FetchQuestion) -> list[Part]:
    """Return what leaders are asked when its turn has come.

    Raise SkipRequest for a fetch that cannot be asked.
    """
    scope = context.fetches.captured.follow(question.request)
    if scope is None:
        raise SkipRequest(*UNTOLD)
    if question.sessionless:
        state = FetchState()
        state.replace(scope, context.cluster.turn, _on_target(context, item, scope.partitions, scope.named))
        changes = FetchChanges()
    else:
        changes = _read_on(context, item, scope)
        state = context.fetches.state(item.request.connection)
    state.limit({each.captured: most_bytes(context, item, each) for each in state.partitions()}, changes)
    nodes = state.nodes
    if not nodes:
        if scope.partitions:
            nameless = all(topic.startswith("?") for topic, _ in scope.partitions)
            raise SkipRequest(*(NAMELESS if nameless else NOT_THERE))
        nodes = {ANY: {}}
    patience = patience_by_node(context, item, nodes, question.patience)
    parts = []
    for node, partitions in nodes.items():
        turn = SessionTurn(NO_SESSION, FINAL_EPOCH, partitions, ())
        if not question.sessionless:
            session = context.fetches.own(item.request.connection, node)
            named, gone = changes.named.get(node, NOTHING), changes.gone.get(node, ())
            turn = session.next_turn(partitions, named, gone)
        parts.append(fetch_part(context.names, question.shape, question.template, turn, node, patience[node]))
    context.notes.add_split(item, len(parts))
    context.fetches.state(item.request.connection).last = item.request.index
    return parts


NOTHING: dict[TopicPartition, Tree] = {}


def _read_on(context: ReplayContext, item: ReplayItem, scope: FetchScope) -> FetchChanges:
    """Return what changed of what a connection reads."""
    state = context.fetches.state(item.request.connection)
    turn = context.cluster.turn
    if state.is_of(scope, turn):
        named = {
            each.captured: each
            for each in (_on_target(context, item, scope.named, scope.named) if scope.named else ())
        }
        return state.update(named, scope.forgotten, context.positions)
    changes = state.replace(scope, turn, _on_target(context, item, scope.partitions, scope.named))
    for node in changes.gone.keys() - state.nodes.keys():  # it is asked no more, so its session ends
        context.fetches.drop(item.request.connection, node)
    return changes


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
        offsets = positions.partition(captured)
        position = context.fetches.position(item.request.connection, captured)
        captured_offset = fields["fetch_offset"]
        if position.target is not None and (
            captured not in named or (captured_offset == position.captured and not positions.keeps_offsets)
        ):
            offset = position.target
            positions.note_reading_on(captured)
        else:
            offset = positions.translate(captured, captured_offset, client).offset
            position.captured, position.target = captured_offset, None
        sent = {
            "partition": number,
            "fetch_offset": offset,
            "partition_max_bytes": fields["partition_max_bytes"],
        }
        leader = context.cluster.leader(topic, number)
        yield FetchedPartition(
            captured,
            leader,
            (topic, number),
            captured_offset,
            fields["partition_max_bytes"],
            sent,
            position,
            offsets,
            offsets.turn,
        )


def client_of(item: ReplayItem) -> str:
    """Return whose place in a log it is: a client goes on where it was, on whichever connection."""
    return item.client_id or f"connection {item.request.connection}"


def learn_fetched(context: ReplayContext, item: ReplayItem, answers: list[Answer]) -> list[Coroutine[None]]:
    """Learn how far a fetch went, and what became of its sessions.

    Return what has to be asked of the target now.
    """
    following: list[Coroutine[None]] = []
    for answer in answers:
        note_patience(context, item, answer)
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
                position = context.fetches.position(item.request.connection, partition)
                position.target = each.following
                position.missed -= each.size


def _forget_position(context: ReplayContext, item: ReplayItem, target: str | bytes, number: int) -> None:
    """Have a position translated anew that the target does not have."""
    name = context.names.captured_name(target if isinstance(target, str) else context.names.name_of(target))
    if name is not None:
        context.fetches.position(item.request.connection, (name, number)).target = None


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
            if each["error_code"] == ErrorCode.OFFSET_OUT_OF_RANGE:
                out_of_range = True
                _forget_position(context, item, target, each["partition_index"])
            if not each["error_code"]:
                records = each["records"] or b""
                number, end = each["partition_index"], each["high_watermark"]
                start = each.get("log_start_offset", -1)
                partitions.append(FetchedRecords(target, number, end, start, *whole_end(records)))
    _learn_partitions(context, item, partitions)
    return [context.discovery.learn_bounds()] if out_of_range else []
