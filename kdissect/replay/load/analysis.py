"""Decisions before the clock starts: each captured request is looked at once, and becomes an item.

This is found out here, because it needs the whole capture or costs time that a run does not have:

- what policy refuses, and what the filters exclude;
- which request got the producer id that a later one uses (InitProducerId, EndTxn), so that the later one can
  wait;
- which batches are retries, and which come before others (see `retries`);
- the order within each transaction;
- what reads, commits and share groups come after (see `captured_reads`, `captured_shares`), and what writes
  the same state (`request_order`);
- what the captured cluster is (ids, addresses), its topics, and how group leaders assigned;
- members and fetch sessions that are older than the capture;
- for `--pace think`: which response a client had seen last.
"""

from collections.abc import Callable, Mapping

import numpy as np

from kdissect.exchanges.filter import topics_of
from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.codec.messages import DecodedMessage
from kdissect.replay.disposition import Disposition
from kdissect.replay.load.anchors import captured_anchors
from kdissect.replay.load.captured_fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH, PriorFetchSessions
from kdissect.replay.load.known_requests import KnownRequests
from kdissect.replay.load.learned_shapes import LearnedShape, LearnedShapes
from kdissect.replay.load.policy import Refusal, refusal_by_content, refusal_by_key
from kdissect.replay.load.prior_members import PriorMembers
from kdissect.replay.load.repeated_messages import CapturedAnswer, RepeatedMessages
from kdissect.replay.load.replay_input import ReplayInput
from kdissect.replay.load.replay_items import ReplayItem, ReplayItems, column_blocks
from kdissect.replay.load.request_table import Request, numbered
from kdissect.replay.load.requests import PROGRESS_STEP, Capture
from kdissect.replay.load.retries import RetryFinder
from kdissect.replay.load.spool import Spool
from kdissect.replay.rewrite.names import Names, Tree
from kdissect.replay.settings import Groups, Pace, ReplaySettings
from kdissect.tables.filters import matches
from kdissect.text import parse_address

NAMING_ONLY = frozenset(
    {
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        ApiKey.SHARE_GROUP_HEARTBEAT,
        ApiKey.SHARE_FETCH,
    }
)
"""Requests whose topics have to be looked up, since their responses do not show that they exist."""

TRANSACTIONAL_ID: Mapping[int, str] = {
    ApiKey.PRODUCE: "transactional_id",
    ApiKey.INIT_PRODUCER_ID: "transactional_id",
    ApiKey.ADD_PARTITIONS_TO_TXN: "v3_and_below_transactional_id",
    ApiKey.ADD_OFFSETS_TO_TXN: "transactional_id",
    ApiKey.END_TXN: "transactional_id",
    ApiKey.TXN_OFFSET_COMMIT: "transactional_id",
}
"""API -> the field with the transactional id."""


def load(
    capture: Capture,
    spool: Spool,
    settings: ReplaySettings,
    progress: Callable[[int, int], None] = lambda _done, _requests: None,
) -> ReplayInput:
    """Return what is known of a capture, after one look at every request. `spool` has the frames.

    `progress` is called with the number of requests that were looked at, and that of all.
    """
    capture.names = settings.topic_ids | capture.names  # what was captured is true
    loaded = ReplayInput(capture, Names(settings, capture.names))
    for server in capture.servers:
        host, port = parse_address(server)
        loaded.source.addresses.add((host, port or 0))
    count = len(capture.requests)
    loaded.items.make_room()
    hosts = {connection: capture.client_host(connection) for connection in capture.clients}
    known = loaded.known = KnownRequests(capture.requests, capture.logged, hosts)
    loader = _Loader(loaded, settings, spool)
    next_step = PROGRESS_STEP
    for index in known:
        loader.take(capture.requests[index])
        if index + 1 >= next_step:
            next_step = index + 1 + PROGRESS_STEP
            progress(index + 1, count)
    loader.end()
    if settings.pace is Pace.THINK:
        loaded.items.set_anchors(*captured_anchors(loaded.items))
    loaded.caps = _most_in_flight(loaded.items)
    capture.logged = None
    known.forget_facts()
    return loaded


class _Loader:
    """Learns from all requests in order."""

    def __init__(self, loaded: ReplayInput, settings: ReplaySettings, spool: Spool) -> None:
        self._loaded, self._settings, self._spool = loaded, settings, spool
        self._messages = RepeatedMessages()
        self._shapes = LearnedShapes(loaded, settings)
        self._retries = RetryFinder(loaded)
        self._members = PriorMembers(loaded.names)
        topics = settings.filter(loaded.capture.earliest_ns).topics
        self._sessions = PriorFetchSessions(loaded.names, lambda topic: not topics or matches(topic, topics))

    def end(self) -> None:
        """Note what only the whole capture tells: what is older than it, and of what too little is known."""
        loaded = self._loaded
        self._shapes.learn_unseen(self._retries)
        loaded.reads.finish()
        self._retries.finish()
        loaded.prior_members = self._members.found()
        loaded.older_sessions = self._sessions.sessions
        for index, refusal in (*self._members.refusals(), *self._sessions.refusals()):
            loaded.items.refuse(index, refusal)

    def take(self, request: Request) -> None:
        """Learn from one request, with its response."""
        loaded = self._loaded
        like = self._shapes.of(request.index)
        if like is not None:
            self._learn_again(request, like)
            return
        frame = self._spool.get(request.frame) or b""
        decoded = self._messages.request(frame) if request.version is not None else None
        client_id = decoded.header.get("client_id") if decoded else None
        item = ReplayItem(request, client_id)
        loaded.bodies.put(request.index, decoded.body if decoded else None, request.frame, self._spool)
        answer = self._answer(request)
        response = None if answer is None else answer.body
        if answer is not None:
            item.error = answer.error
            loaded.source.learn_response(request.key, answer.body)
        item.refusal = self._refusal(request, decoded, item)
        if decoded is not None and decoded.body is not None:
            if request.key == ApiKey.SASL_HANDSHAKE:
                loaded.source.mechanisms.add(str(decoded.body.get("mechanism")))
            if decoded.fault is None:
                self._learn(item, decoded.body, response)
                self._shapes.add(item, decoded.body, response)
                self._look_closer(item, decoded.body)
        loaded.items.put(item)

    def _look_closer(self, item: ReplayItem, body: Tree) -> None:
        """Have all requests looked at of whose kind one says that each matters."""
        known, request = self._loaded.known, item.request
        if request.key == ApiKey.FETCH and self._sessions.needs_all(request, body):
            known.mark_shape(request.index)
        if request.key == ApiKey.PRODUCE and self._retries.has_failed_records:
            known.mark_anonymous()

    def _learn_again(self, request: Request, like: LearnedShape) -> None:
        """Learn from a request of a group that says what an earlier one said: only its time is its own."""
        loaded, sent = self._loaded, like.refusal is None
        if self._settings.groups is Groups.FULL:
            self._members.take(request, like.body, like.response, like.client, sent)
        if sent:
            version, names = request.version or 0, loaded.names
            loaded.reads.take(request, like.body, like.response or {}, like.client, names)
            loaded.last_writers.take(request.index, request.key, version, like.body, names)
            if self._settings.groups is Groups.FULL:
                loaded.group_order.take(request, like.body, like.response or {})

    def _answer(self, request: Request) -> CapturedAnswer | None:
        """Return the decoded response; None if there is none or it cannot be decoded."""
        frame = self._spool.get(request.response) if request.response_complete else None
        if frame is None or request.version is None:
            return None
        return self._messages.response(frame, request.key, request.version)

    def _refusal(self, request: Request, decoded: DecodedMessage | None, item: ReplayItem) -> Refusal | None:
        """Return why a request is not sent, if that can be told from the capture alone."""
        if decoded is None or request.version is None:
            return Refusal(Disposition.VERSION, "Kafka 0.7 is spoken by no target")
        refusal = refusal_by_key(request.key, self._settings)
        if refusal is not None:
            return refusal
        if not request.complete:
            return Refusal(Disposition.UNDECODABLE, "the capture lost a part of it")
        if decoded.body is None or decoded.fault is not None:
            return Refusal(Disposition.UNDECODABLE, str(decoded.fault))
        refusal = refusal_by_content(request.key, request.version, decoded.body, item.client_id)
        if refusal is None and request.excluded_by:
            return Refusal(Disposition.POLICY, f"excluded by {request.excluded_by}")
        return refusal

    def _learn(self, item: ReplayItem, body: Tree, response: Tree | None) -> None:
        """Learn from a request that could be decoded."""
        loaded, request = self._loaded, item.request
        if request.key in TRANSACTIONAL_ID:
            item.transaction = body.get(TRANSACTIONAL_ID[request.key]) or None
        if response is not None:
            self._learn_response(request, body, response)
        self._learn_older(item, body, response)
        if request.key in NAMING_ONLY:
            version = request.version or 0
            for topic in topics_of(request.key, version, body, loaded.names.captured_ids):
                loaded.source.add_topic(topic)
        if response is not None:
            loaded.source.learn_partitions(request.key, response, loaded.names)
        if request.key == ApiKey.DELETE_TOPICS:
            loaded.reads.note_deletion(request.index, response or {}, loaded.names)
        if request.key == ApiKey.PRODUCE:
            self._retries.take(item, body, response)
        if item.refusal is None:
            captured_ids = loaded.names.captured_ids
            loaded.connection_groups.take(
                request, body, response, item.transaction, item.client_id, captured_ids
            )
            client = loaded.capture.client_host(request.connection), item.client_id
            loaded.reads.take(request, body, response or {}, client, loaded.names)
            shared = loaded.shares.take(request, body, response or {}, loaded.names)
            loaded.connection_groups.add_reader(request.connection, shared)
            if request.key == ApiKey.CREATE_TOPICS:
                self._learn_created(body, response or {})
            version = request.version or 0
            for owner in loaded.last_writers.take(request.index, request.key, version, body, loaded.names):
                loaded.connection_groups.unite(request.connection, owner)
            if self._settings.groups is Groups.FULL:
                loaded.group_order.take(request, body, response or {})
            if item.transaction:
                loaded.transactions.setdefault(item.transaction, []).append(request.index)

    def _learn_response(self, request: Request, body: Tree, response: Tree) -> None:
        loaded, error = self._loaded, response.get("error_code")
        if request.key in (ApiKey.INIT_PRODUCER_ID, ApiKey.END_TXN) and not error:
            key = (response.get("producer_id", -1), response.get("producer_epoch", -1))
            if key[0] >= 0:
                loaded.issuers.setdefault(key, request.index)
        elif request.key == ApiKey.SYNC_GROUP and body["assignments"] and not error:
            loaded.assignments[body["group_id"], body["generation_id"]] = {
                each["member_id"]: each["assignment"] for each in body["assignments"]
            }
        elif request.key == ApiKey.FETCH:
            opens = body.get("session_epoch", FINAL_EPOCH) in (INITIAL_EPOCH, FINAL_EPOCH)
            if opens and response.get("session_id"):
                loaded.sessions[request.index] = response["session_id"]
            for topic in response.get("responses") or ():
                name = loaded.names.captured_topic(topic, "topic") or ""
                for each in topic["partitions"]:
                    if each.get("log_start_offset", -1) >= 0:
                        partition = (name, each["partition_index"])
                        loaded.starts.setdefault(partition, each["log_start_offset"])

    def _learn_created(self, body: Tree, response: Tree) -> None:
        """Learn which topics a request made that were not there before."""
        loaded = self._loaded
        if body.get("validate_only"):
            return
        for topic in response.get("topics") or ():
            known = loaded.source.topics.get(topic["name"])
            if not topic["error_code"] and not (known and known.partitions):
                loaded.created.add(topic["name"])

    def _learn_older(self, item: ReplayItem, body: Tree, response: Tree | None) -> None:
        """Learn what a request tells about sessions and members that may be older than the capture."""
        request, sent = item.request, item.refusal is None
        of_client = item.refusal is None or item.refusal.bucket is Disposition.POLICY
        if request.key == ApiKey.FETCH and of_client:
            topics = self._sessions.take(request, body, response, sent)
            self._loaded.connection_groups.add_reader(request.connection, topics)
        if self._settings.groups is Groups.FULL:
            client = self._loaded.capture.client_host(request.connection), item.client_id
            self._members.take(request, body, response, client, sent)


def _most_in_flight(items: ReplayItems) -> dict[int, int]:
    """Return how many requests each connection had in flight at most."""
    most: dict[int, int] = {}
    for connections, in_flight in column_blocks(items, "connection", "in_flight"):
        each, place = numbered(connections)
        largest = np.ones(len(each), np.int64)
        np.maximum.at(largest, place, in_flight)
        for connection, count in zip(each.tolist(), largest.tolist(), strict=True):
            most[connection] = max(count, most.get(connection, 1))
    return most
