"""What is decided before the clock starts: every captured request is looked at once, in order, and becomes an `ReplayItem`.

Found out here, because it needs the whole capture or costs time that a run does not have:

- what policy refuses, and what the operator did not choose;
- which request got the id that a later one uses (InitProducerId, EndTxn), so that the later one can wait for it;
- which batches are retries: the same producer, epoch and sequence, or without those the same records after an attempt that
  failed for a passing reason or was never answered;
- the order within each transaction;
- what the source cluster is (ids, addresses), its topics, and how group leaders assigned;
- for the pace `think`: which answer a client had seen last.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.codec.messages import (
    DecodedMessage,
    decode_request,
    decode_response,
)
from kdissect.protocol.error_codes import is_retriable
from kdissect.protocol.schema.registry import is_known
from kdissect.replay.disposition import Disposition, SkipRequest
from kdissect.replay.identifiers import (
    FetchSessionKey,
    MemberKey,
    ProducerKey,
    RecordPosition,
    TopicPartition,
)
from kdissect.replay.load.captured_fetch_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    FetchedPartitions,
)
from kdissect.replay.load.connection_groups import ConnectionGroups
from kdissect.replay.load.decoded_cache import DecodedCache
from kdissect.replay.load.policy import (
    Refusal,
    by_content,
    by_key,
)
from kdissect.replay.load.prior_fetch_sessions import OlderSessions
from kdissect.replay.load.prior_members import PriorMember, PriorMembers
from kdissect.replay.load.requests import Capture, Request
from kdissect.replay.load.retries import Attempts
from kdissect.replay.load.spool import Spool
from kdissect.replay.rewrite.batch_rewrite import Batch, batches_of
from kdissect.replay.rewrite.names import Names, Tree
from kdissect.replay.rewrite.references import (
    errors_of,
    topics_of,
)
from kdissect.replay.settings import (
    Groups,
    ReplaySettings,
)
from kdissect.tables.filters import matches

ANSWERED_BY_PARTITION: dict[int, tuple[str, str]] = {
    ApiKey.FETCH: ("responses", "topic"),
    ApiKey.LIST_OFFSETS: ("topics", "name"),
    ApiKey.OFFSET_COMMIT: ("topics", "name"),
}
NAMING = frozenset(
    {
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        ApiKey.SHARE_GROUP_HEARTBEAT,
        ApiKey.SHARE_FETCH,
    }
)
"""They name topics that have to be looked up."""
TRANSACTIONAL: dict[int, str] = {
    ApiKey.PRODUCE: "transactional_id",
    ApiKey.INIT_PRODUCER_ID: "transactional_id",
    ApiKey.ADD_PARTITIONS_TO_TXN: "v3_and_below_transactional_id",
    ApiKey.ADD_OFFSETS_TO_TXN: "transactional_id",
    ApiKey.END_TXN: "transactional_id",
    ApiKey.TXN_OFFSET_COMMIT: "transactional_id",
}


class SourceTopic(NamedTuple):
    """A topic as the capture tells it."""

    partitions: int
    replicas: int  # 0: the capture does not say


@dataclass(slots=True)
class ReplayItem:
    """One captured request on its way to its bucket."""

    request: Request
    client_id: str | None
    refusal: Refusal | None = None
    transaction: str | None = None
    anchor: int = -1  # the request whose answer the client saw last before it sent this one
    gap_ns: int = 0  # from that answer to this request; without anchor from the connection's first request
    error: int | None = None  # the first error of the captured answer, 0 for none; None: no answer
    after_ns: int = 0  # how long after the start of the run it is due


@dataclass(slots=True)
class CapturedCluster:
    """What the capture says about the cluster it was taken of."""

    cluster_ids: set[str] = field(default_factory=set)
    addresses: set[tuple[str, int]] = field(default_factory=set)
    topics: dict[str, SourceTopic] = field(default_factory=dict)
    principals: set[str] = field(default_factory=set)  # SASL mechanisms seen


@dataclass(slots=True)
class ReplayInput:
    """All that a plan and a run start from."""

    capture: Capture
    names: Names
    items: list[ReplayItem] = field(default_factory=list)
    bodies: DecodedCache = field(default_factory=DecodedCache)
    starts: dict[TopicPartition, int] = field(default_factory=dict)  # of the logs, as fetches told them first
    sessions: dict[int, int] = field(default_factory=dict)  # fetch -> the session that its answer opened
    source: CapturedCluster = field(default_factory=CapturedCluster)
    caps: dict[int, int] = field(default_factory=dict)  # connection -> most in flight
    issuers: dict[ProducerKey, int] = field(default_factory=dict)
    # Request -> partition -> earlier attempts.
    retries: dict[int, dict[TopicPartition, tuple[int, ...]]] = field(default_factory=dict)
    # The same of producers without idempotence, record by record.
    repeats: dict[int, dict[TopicPartition, dict[RecordPosition, tuple[int, ...]]]] = field(
        default_factory=dict
    )
    # Request -> those on other connections that come before it.
    after: dict[int, set[int]] = field(default_factory=dict)
    transactions: dict[str, list[int]] = field(default_factory=dict)
    # Group, generation -> member -> assignment.
    assignments: dict[tuple[str, int], dict[str, bytes]] = field(default_factory=dict)
    prior_members: dict[MemberKey, PriorMember] = field(default_factory=dict)
    older_sessions: dict[FetchSessionKey, FetchedPartitions] = field(default_factory=dict)
    connection_groups: ConnectionGroups = field(default_factory=ConnectionGroups)
    records: int = 0
    record_bytes: int = 0
    removed_ns: int = 0  # waiting time that --max-gap took out

    def attempts(self) -> set[int]:
        """Return the requests whose outcome decides whether a later one is sent."""
        by_number = (attempts for tried in self.retries.values() for attempts in tried.values())
        by_record = (
            attempts
            for tried in self.repeats.values()
            for records in tried.values()
            for attempts in records.values()
        )
        return {each for attempts in (*by_number, *by_record) for each in attempts}


def load(capture: Capture, shelf: Spool, settings: ReplaySettings) -> ReplayInput:
    """Look at every request once."""
    capture.names = settings.topic_ids | capture.names  # what was captured is true
    names = Names(settings, capture.names)
    loaded = ReplayInput(capture, names)
    for server in capture.servers:
        host, _, port = server.rpartition(":")
        loaded.source.addresses.add((host.strip("[]"), int(port)))
    loader = _Loader(loaded, settings)
    for request in capture.requests:
        loader.take(request, shelf)
    loader.end()
    _anchor(loaded.items)
    return loaded


class _Loader:
    def __init__(self, loaded: ReplayInput, settings: ReplaySettings) -> None:
        self._loaded, self._settings = loaded, settings
        self._sequences: dict[tuple[ProducerKey, TopicPartition, int], tuple[int, ...]] = {}
        self._clients: dict[str | None, str | None] = {}  # their ids, each kept once
        self._attempts = Attempts()
        self._writers: dict[tuple[object, TopicPartition], tuple[int, int, str]] = {}
        self._elders = PriorMembers(loaded.names)
        topics = settings.filter(loaded.capture.earliest_ns).topics
        self._sessions = OlderSessions(loaded.names, lambda topic: not topics or matches(topic, topics))

    def end(self) -> None:
        """Say what only the whole capture tells: who is older than it, and of whom too little is known."""
        loaded = self._loaded
        loaded.prior_members = self._elders.found()
        loaded.older_sessions = self._sessions.sets
        for index, refusal in (*self._elders.refused(), *self._sessions.refused()):
            loaded.items[index].refusal = refusal

    def take(self, request: Request, shelf: Spool) -> None:
        loaded = self._loaded
        whole = decode_request(shelf.get(request.frame) or b"") if request.version is not None else None
        client_id = whole.header.get("client_id") if whole else None
        item = ReplayItem(request, self._clients.setdefault(client_id, client_id))
        loaded.items.append(item)
        loaded.bodies.add(whole.body if whole else None, request.frame, shelf)
        known = loaded.caps.get(request.connection, 1)
        loaded.caps[request.connection] = max(known, request.in_flight)
        answer = shelf.get(request.answer) if request.answer_whole else None
        said = self._answer(request, answer)
        item.error = (
            None if said is None else next(iter(errors_of(request.key, request.version or 0, said)), 0)
        )
        self._learn_source(request, whole, said)
        item.refusal = self._refusal(request, whole, item)
        if whole is None or whole.body is None or whole.fault is not None:
            return
        if request.key in TRANSACTIONAL:
            item.transaction = whole.body.get(TRANSACTIONAL[request.key]) or None
        self._learn_ids(request, said)
        if request.key == ApiKey.FETCH and said:
            self._learn_fetched(request, whole.body, said)
        self._learn_groups(request, whole.body, said)
        self._learn_older(item, whole.body, said)
        self._learn_topics(request, whole.body, said)
        if request.key == ApiKey.PRODUCE:
            self._learn_batches(item, whole.body, said)
        if item.refusal is None:
            loaded.connection_groups.take(
                request, whole.body, said, item.transaction, item.client_id, loaded.names.captured_ids
            )
        if item.refusal is None and item.transaction:
            loaded.transactions.setdefault(item.transaction, []).append(request.index)

    def _answer(self, request: Request, answer: bytes | None) -> Tree | None:
        if answer is None or request.version is None or not is_known(request.key, request.version):
            return None
        whole = decode_response(answer, request.key, request.version)
        return whole.body if whole.fault is None else None

    def _refusal(self, request: Request, whole: DecodedMessage | None, item: ReplayItem) -> Refusal | None:
        settings = self._settings
        if whole is None or request.version is None:
            return Refusal(Disposition.VERSION, "Kafka 0.7 is spoken by no target")
        refused = by_key(request.key, settings)
        if refused:
            return refused
        if not request.whole or whole.body is None or whole.fault is not None:
            why = "the capture lost a part of it" if not request.whole else str(whole.fault)
            return Refusal(Disposition.UNDECODABLE, why)
        refused = by_content(request.key, request.version, whole.body, item.client_id)
        if refused is None and request.excluded_by:
            return Refusal(Disposition.POLICY, f"excluded by {request.excluded_by}")
        return refused

    def _learn_source(self, request: Request, whole: DecodedMessage | None, said: Tree | None) -> None:
        source = self._loaded.source
        if request.key == ApiKey.SASL_HANDSHAKE and whole and whole.body:
            source.principals.add(str(whole.body.get("mechanism")))
        if said is None or request.key not in (
            ApiKey.METADATA,
            ApiKey.DESCRIBE_CLUSTER,
            ApiKey.FIND_COORDINATOR,
        ):
            return
        if said.get("cluster_id"):
            source.cluster_ids.add(said["cluster_id"])
        for node in (*(said.get("brokers") or ()), *(said.get("coordinators") or ()), said):
            if node.get("host") and node.get("port", -1) > 0:
                source.addresses.add((node["host"], node["port"]))
        for topic in said.get("topics") or ():
            if topic.get("name") and not topic["error_code"]:
                replicas = min((len(each["replica_nodes"]) for each in topic["partitions"]), default=0)
                known = source.topics.get(topic["name"], SourceTopic(0, replicas))
                source.topics[topic["name"]] = SourceTopic(
                    max(known.partitions, len(topic["partitions"])), replicas
                )

    def _learn_ids(self, request: Request, said: Tree | None) -> None:
        if request.key in (ApiKey.INIT_PRODUCER_ID, ApiKey.END_TXN) and said and not said["error_code"]:
            key = (said.get("producer_id", -1), said.get("producer_epoch", -1))
            if key[0] >= 0:
                self._loaded.issuers.setdefault(key, request.index)

    def _learn_fetched(self, request: Request, body: Tree, said: Tree) -> None:
        if said.get("session_id") and body.get("session_epoch", FINAL_EPOCH) in (INITIAL_EPOCH, FINAL_EPOCH):
            self._loaded.sessions[request.index] = said["session_id"]
        for topic in said.get("responses") or ():
            name = self._loaded.names.captured_topic(topic, "topic") or ""
            for each in topic["partitions"]:
                if each.get("log_start_offset", -1) >= 0:
                    self._loaded.starts.setdefault((name, each["partition_index"]), each["log_start_offset"])

    def _learn_groups(self, request: Request, body: Tree, said: Tree | None) -> None:
        if request.key == ApiKey.SYNC_GROUP and body["assignments"] and said and not said["error_code"]:
            self._loaded.assignments[body["group_id"], body["generation_id"]] = {
                each["member_id"]: each["assignment"] for each in body["assignments"]
            }

    def _learn_older(self, item: ReplayItem, body: Tree, said: Tree | None) -> None:
        request, played = item.request, item.refusal is None
        of_client = item.refusal is None or item.refusal.bucket is Disposition.POLICY
        if request.key == ApiKey.FETCH and of_client:
            told = self._sessions.take(request, body, said, played)
            self._loaded.connection_groups.reads(request.connection, told)
        if self._settings.groups is Groups.FULL:
            host = self._loaded.capture.clients.get(request.connection, "").rpartition(":")[0]
            self._elders.take(request, body, said, (host, item.client_id), played)

    def _learn_topics(self, request: Request, body: Tree, said: Tree | None) -> None:
        """A partition that is read without an error is there, whether or not the capture has metadata that names it."""
        if request.key in NAMING:
            for topic in topics_of(request.key, request.version or 0, body, self._loaded.names.captured_ids):
                self._loaded.source.topics.setdefault(topic, SourceTopic(0, 0))
        if said is not None and request.key in ANSWERED_BY_PARTITION:
            topics, name = ANSWERED_BY_PARTITION[request.key]
            for topic in said.get(topics) or ():
                for each in topic["partitions"]:
                    if not each["error_code"]:
                        found = self._loaded.names.captured_topic(topic, name)
                        _grow(self._loaded.source, (found or "", each["partition_index"]))

    def _learn_batches(self, item: ReplayItem, body: Tree, said: Tree | None) -> None:
        loaded, request = self._loaded, item.request
        outcomes = _outcomes(said, loaded.names)
        for topic in body["topic_data"]:
            name = loaded.names.captured_topic(topic) or ""
            for partition in topic["partition_data"]:
                where = (name, partition["index"])
                _grow(loaded.source, where)
                try:
                    batches = batches_of(partition["records"] or b"")
                except SkipRequest:
                    continue  # said when the request's turn comes
                loaded.records += sum(batch.records for batch in batches)
                loaded.record_bytes += len(partition["records"] or b"")
                self._keep_order(item, where, batches)
                if batches and batches[0].producer_id >= 0:
                    self._learn_numbered(request, where, batches[0])
                elif batches:
                    self._learn_plain(item, where, batches, outcomes.get(where))

    def _keep_order(self, item: ReplayItem, where: TopicPartition, batches: list[Batch]) -> None:
        """Find the request that must be done before: a producer changes its connection when a leader moves.

        Without a producer id only another broker tells that from a second producer of the same name.
        """
        request = item.request
        if not batches or item.refusal is not None:
            return
        host = self._loaded.capture.clients.get(request.connection, "").rpartition(":")[0]
        producer: object = batches[0].producer_id if batches[0].producer_id >= 0 else (host, item.client_id)
        known = self._writers.get((producer, where))
        self._writers[producer, where] = (request.index, request.connection, request.server)
        if known is None or known[1] == request.connection:
            return
        if batches[0].producer_id >= 0 or known[2] != request.server:
            self._loaded.after.setdefault(request.index, set()).add(known[0])

    def _learn_numbered(self, request: Request, where: TopicPartition, batch: Batch) -> None:
        """Find a retry by its number: its producer sends the same batch again."""
        key = ((batch.producer_id, batch.producer_epoch), where, batch.base_sequence)
        before = self._sequences.get(key, ())
        self._sequences[key] = (*before, request.index)
        if before:
            self._loaded.retries.setdefault(request.index, {})[where] = before

    def _learn_plain(
        self, item: ReplayItem, where: TopicPartition, batches: list[Batch], error: int | None
    ) -> None:
        """Find a retry by its records: its producer may batch them anew."""
        request, who = item.request, (item.client_id, where)
        before = self._attempts.earlier(who, batches, request.first_ns)
        if before:
            self._loaded.repeats.setdefault(request.index, {})[where] = before
        if request.status == "unanswered" if error is None else error and is_retriable(error):
            self._attempts.failed(who, batches, request.index, request.first_ns, before)


def _outcomes(said: Tree | None, names: Names) -> dict[TopicPartition, int]:
    return {
        (names.captured_topic(topic) or "", each["index"]): each["error_code"]
        for topic in (said or {}).get("responses") or ()
        for each in topic["partition_responses"]
    }


def _grow(source: CapturedCluster, where: TopicPartition) -> None:
    """A partition that is written to or read is there, whether or not an answer told of it."""
    topic, partition = where
    known = source.topics.get(topic, SourceTopic(0, 0))
    if topic and partition >= known.partitions:
        source.topics[topic] = known._replace(partitions=partition + 1)


def _anchor(items: list[ReplayItem]) -> None:
    """For each request find the answer that its client had seen last, and how long it thought since."""
    answered: dict[int, list[tuple[int, int]]] = defaultdict(list)
    first: dict[int, int] = {}
    for item in items:
        request = item.request
        seen = [each for each in answered[request.connection] if each[0] <= request.first_ns]
        start = first.setdefault(request.connection, request.first_ns)
        if seen:
            time_ns, item.anchor = max(seen)
            item.gap_ns = request.first_ns - time_ns
            answered[request.connection] = [
                each for each in answered[request.connection] if each[0] >= time_ns
            ]
        else:
            item.gap_ns = request.first_ns - start
        if request.answered_ns is not None and (item.refusal is None):
            answered[request.connection].append((request.answered_ns, request.index))


__all__ = ["CapturedCluster", "ReplayInput", "ReplayItem", "SourceTopic", "load"]
