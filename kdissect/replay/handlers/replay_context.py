"""What all courses of a run share: what is known of the target, and the errands that learn more.

One `ReplayContext` lives as long as one pass over the captured requests; a second pass (`--loop`) gets a new one, and with it new
producer ids: the same batches under the same id would be answered, and not written.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.codec.messages import decode_response
from kdissect.protocol.error_codes import COORDINATOR_ERRORS, LEADER_ERRORS, ErrorCode, error_name
from kdissect.protocol.schema.registry import APIS, api_name
from kdissect.replay.disposition import Disposition
from kdissect.replay.effects import (
    ANY,
    Answer,
    Ask,
    Coroutine,
    Gate,
    Part,
    Pause,
    Until,
    ask_one,
)
from kdissect.replay.load.analysis import ReplayInput, ReplayItem
from kdissect.replay.load.spool import SpoolSlot
from kdissect.replay.rewrite.roles import (
    GROUP_KEY,
    TRANSACTION_KEY,
    Names,
    SkipRequest,
    Tree,
    rewriter,
)
from kdissect.replay.rewrite.versions import (
    Range,
    chosen_version,
    convert,
)
from kdissect.replay.settings import Groups, ReplaySettings
from kdissect.replay.target.cluster import (
    CUTS,
    TargetCluster,
    split,
)
from kdissect.replay.target.fetch_sessions import CapturedSessions, OwnSession
from kdissect.replay.target.fetch_state import Reading
from kdissect.replay.target.members import Members
from kdissect.replay.target.offsets import Positions
from kdissect.replay.target.producers import (
    Identity,
    Key,
    Producers,
)
from kdissect.replay.target.share_sessions import ShareMember

LEAST_METADATA = 4  # older ones create topics that are asked for
PASSING = COORDINATOR_ERRORS | {ErrorCode.CONCURRENT_TRANSACTIONS}
SOON_NS, AGAIN_NS = 5_000_000, 50_000_000  # before the first try again, and at most
OWN_CLIENT_ID = "kdissect-replay"
CONTROL = "control"  # owns the connections for what belongs to no captured one

OF_GROUP: dict[int, str] = dict.fromkeys(
    (
        ApiKey.OFFSET_COMMIT,
        ApiKey.JOIN_GROUP,
        ApiKey.HEARTBEAT,
        ApiKey.LEAVE_GROUP,
        ApiKey.SYNC_GROUP,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.OFFSET_DELETE,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        ApiKey.SHARE_GROUP_HEARTBEAT,
    ),
    "group_id",
)
OF_GROUPS: dict[int, str] = {
    ApiKey.OFFSET_FETCH: "groups",
    ApiKey.DESCRIBE_GROUPS: "groups",
    ApiKey.DELETE_GROUPS: "groups_names",
    ApiKey.CONSUMER_GROUP_DESCRIBE: "group_ids",
    ApiKey.SHARE_GROUP_DESCRIBE: "group_ids",
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: "groups",
}
OF_TRANSACTION: dict[int, str] = {
    ApiKey.INIT_PRODUCER_ID: "transactional_id",
    ApiKey.ADD_PARTITIONS_TO_TXN: "v3_and_below_transactional_id",
    ApiKey.ADD_OFFSETS_TO_TXN: "transactional_id",
    ApiKey.END_TXN: "transactional_id",
}


@dataclass(slots=True)
class ReplayContext:
    """See the module."""

    settings: ReplaySettings
    loaded: ReplayInput
    topology: TargetCluster
    now_ns: Callable[[], int]
    frame: Callable[[SpoolSlot | None], bytes | None]  # reads captured frames
    shift_ns: int = 0  # from the capture's time to the run's
    settled: Callable[[int], Gate | None] = lambda _index: None  # a gate of a request that has not ended yet
    spawn: Callable[[Coroutine, Hashable], None] = lambda _errand, _owner: None  # run beside everything else
    producers: Producers = field(default_factory=Producers)
    positions: Positions = field(init=False)
    fetched: CapturedSessions = field(init=False)
    attempts: set[int] = field(init=False)  # requests whose outcome decides about others
    own_sessions: dict[tuple[int, int], OwnSession] = field(default_factory=dict)  # (connection, node)
    readings: dict[int, Reading] = field(default_factory=dict)  # by connection
    open_transactions: dict[str, Identity] = field(default_factory=dict)  # transactional id on the target
    added: dict[str, set[tuple[str, int]]] = field(default_factory=lambda: defaultdict(set))
    notes: dict[int, list[str]] = field(default_factory=dict)
    produced: dict[int, list[tuple[str, int]]] = field(default_factory=dict)  # request -> batches as sent
    counts: Counter[str] = field(default_factory=Counter)
    originals: dict[str, str] = field(default_factory=dict)
    members: Members = field(default_factory=Members)
    # Captured group, member id of the target.
    shares: dict[tuple[str, str], ShareMember] = field(default_factory=dict)
    leaderless: dict[tuple[str, int], int] = field(default_factory=dict)  # until when they are waited for
    refreshing: bool = False
    learning_bounds: bool = False
    # Transactional id -> how many of its requests have ended.
    ended_until: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.positions = Positions(self.settings.offsets)
        for where, start in self.loaded.starts.items():
            self.positions.captured_start(where, start)
        self.fetched = CapturedSessions(self.names, self.loaded.older_sessions)
        by_number = (attempts for tried in self.loaded.retries.values() for attempts in tried.values())
        by_record = (
            attempts
            for tried in self.loaded.repeats.values()
            for records in tried.values()
            for attempts in records.values()
        )
        self.attempts = {each for attempts in (*by_number, *by_record) for each in attempts}

    @property
    def names(self) -> Names:
        """How things are called on the target."""
        return self.loaded.names

    def note(self, item: ReplayItem, text: str) -> None:
        """Remember a rewrite for the run's files."""
        self.notes.setdefault(item.request.index, []).append(text)

    def captured_answer(self, item: ReplayItem) -> Tree:
        """Give the captured answer decoded; empty if there is none or it makes no sense."""
        request = item.request
        answer = self.frame(request.answer) if request.answer_whole else None
        return (decode_response(answer, request.key, request.version or 0).body or {}) if answer else {}

    def body(self, item: ReplayItem) -> Tree:
        """Give a captured request decoded, to be changed."""
        return self.loaded.bodies.get(item.request.index, item.request.frame, self.frame)

    # Rewriting

    def version(self, item: ReplayItem, least: int = 0, most: int = 99) -> int:
        """Choose the version in which a request is sent. Raises SkipRequest if the target has none."""
        key = item.request.key
        version = _version(key, item.request.version or 0, self.topology.versions.get(key), least, most)
        if version is None:
            raise SkipRequest(Disposition.VERSION, f"the target does not speak {api_name(key)}")
        return version

    def carried(self, item: ReplayItem, body: Tree, version: int) -> Tree:
        """Put the target's values in, and carry the request over to a version. `body` is changed."""
        request = item.request
        captured = request.version or 0
        rewriter(APIS[request.key].request, captured)(body, self.names)
        return self.converted(item, body, captured, version)

    def converted(self, item: ReplayItem, body: Tree, captured: int, version: int) -> Tree:
        """Carry a tree that has the target's values over to another version."""
        if captured == version:
            return body
        done = convert(item.request.key, body, captured, version, self.names)
        name = api_name(item.request.key)
        if done.losses and not self.settings.allow_lossy:
            raise SkipRequest(
                Disposition.LOSSY, f"{name} v{captured} as v{version} loses {', '.join(done.losses)}"
            )
        self.note(
            item,
            f"{name} v{captured} as v{version}"
            + (f", without {', '.join(done.losses)}" if done.losses else ""),
        )
        return done.tree

    def client_id(self, item: ReplayItem) -> str | None:
        """What the client calls itself on the target."""
        return self.renamed_client(item.client_id)

    def renamed_client(self, captured: str | None) -> str | None:
        """Give a client's name on the target."""
        return None if captured is None else self.settings.client_id_prefix + captured

    def captured_name(self, target: str | None) -> str | None:
        """Give the captured name of a topic of the target."""
        return None if target is None else self._captured_names().get(target)

    def _captured_names(self) -> dict[str, str]:
        if len(self.originals) != len(self.loaded.source.topics):
            self.originals.update({self.names.topic(name): name for name in self.loaded.source.topics})
        return self.originals

    def translate_commits(self, item: ReplayItem, body: Tree) -> None:
        """Put the target's positions into a request that commits offsets, and drop what is not on the target."""
        for topic in body["topics"]:
            name = self.names.captured_topic(topic)
            if name is None:
                raise SkipRequest(Disposition.HEADLESS, "a topic id has no name in the capture")
            for partition in topic["partitions"]:
                place = self.positions.translate(
                    (name, partition["partition_index"]),
                    partition["committed_offset"],
                    item.client_id or "",
                )
                partition["committed_offset"] = place.offset
        body["topics"] = [
            topic
            for topic in body["topics"]
            if self.names.topic(self.names.captured_topic(topic) or "") in self.topology.topics
        ]
        if not body["topics"]:
            raise SkipRequest(Disposition.DEPENDENCY, "none of its topics is on the target")

    def put_member(self, body: Tree, group: str, generation: str) -> None:
        """Say who commits: the live member, or nobody where membership is not replayed."""
        live = (
            self.members.live(group, body.get("member_id", ""))
            if self.settings.groups is Groups.FULL
            else None
        )
        for name, value in (
            (generation, live.generation if live else -1),
            ("member_id", live.member_id if live else ""),
        ):
            if name in body:
                body[name] = value
        if live is None and "group_instance_id" in body:
            body["group_instance_id"] = None

    # Routing

    def parts(self, item: ReplayItem, version: int, body: Tree, wait_ms: int = 0) -> Coroutine:
        """Cut a rewritten request into the parts that its nodes get."""
        key, client_id = item.request.key, self.client_id(item)
        if key in CUTS:
            cuts = split(key, body, self.topology, self.names)
            if len(cuts) > 1:
                self.counts["split"] += 1
                self.note(item, f"split for {len(cuts)} leaders")
            return [Part(key, version, each, node, client_id, False, wait_ms) for node, each in cuts]
        node = yield from self.node_for(key, body)
        return [Part(key, version, body, node, client_id, False, wait_ms)]

    def node_for(self, key: int, body: Tree) -> Coroutine:
        """Find the node that a request must go to."""
        if key in OF_GROUP:
            return (yield from self.coordinator(GROUP_KEY, body[OF_GROUP[key]]))
        if key in OF_TRANSACTION and body.get(OF_TRANSACTION[key]):
            return (yield from self.coordinator(TRANSACTION_KEY, body[OF_TRANSACTION[key]]))
        if key in OF_GROUPS:
            group = body.get("group_id") or next(iter(body.get(OF_GROUPS[key]) or ()), None)
            name = group.get("group_id") if isinstance(group, dict) else group
            if name:
                return (yield from self.coordinator(GROUP_KEY, name))
        return ANY

    def coordinator(self, kind: int, name: str) -> Coroutine:
        """Find the coordinator of a group or a transactional id, by the name that it has on the target."""
        known = self.topology.coordinators.get((kind, name))
        if known is not None and known in self.topology.nodes:
            return known
        deadline = self.now_ns() + int(self.settings.dependency_deadline_s * 1e9)
        version = (
            chosen_version(ApiKey.FIND_COORDINATOR, 4, self.topology.versions.get(ApiKey.FIND_COORDINATOR))
            or 0
        )
        body: Tree = (
            {"key_type": kind, "coordinator_keys": [name]}
            if version >= 4
            else {"key": name, "key_type": kind}
        )
        if version < 1:
            del body["key_type"]
        error = "no answer"
        while self.now_ns() < deadline:
            answer: Answer = yield from ask_one(
                Part(ApiKey.FIND_COORDINATOR, version, body, client_id=OWN_CLIENT_ID)
            )
            said = answer.body
            found = (said.get("coordinators") or [said])[0] if said else {}
            if found.get("error_code") == 0:
                self.topology.admit((found["host"], found["port"]))
                self.topology.coordinators[kind, name] = found["node_id"]
                self.topology.nodes.setdefault(found["node_id"], (found["host"], found["port"]))
                return found["node_id"]
            error = error_name(found["error_code"]) if found else str(answer.bucket)
            yield Pause(2 * AGAIN_NS)
        raise SkipRequest(Disposition.DEPENDENCY, f"no coordinator of {name} on the target: {error}")

    def refresh(self) -> Coroutine:
        """Learn leaders anew; only one such question is asked at a time."""
        if self.refreshing:
            return
        self.refreshing = True
        self.counts["metadata refreshed"] += 1
        try:
            yield Pause(AGAIN_NS)
            yield from self.learn_topics(sorted(self.topology.topics))
        finally:
            self.refreshing = False

    def learn_topics(self, topics: list[str]) -> Coroutine:
        """Ask for topics of the target by name."""
        version, body = self.asking_for(topics)
        answer: Answer = yield from ask_one(Part(ApiKey.METADATA, version, body, client_id=OWN_CLIENT_ID))
        if answer.body:
            self.topology.learn_metadata(answer.body, self.names)
        return answer

    def asking_for(self, topics: list[str]) -> tuple[int, Tree]:
        """Give the version and body of a Metadata request for topics; none is created by that."""
        version = (
            chosen_version(ApiKey.METADATA, 12, self.topology.versions.get(ApiKey.METADATA)) or LEAST_METADATA
        )
        return version, {"topics": [{"name": name} for name in topics], "allow_auto_topic_creation": False}

    def own_session(self, connection: int, node: int) -> OwnSession:
        """Give our fetch session on one link."""
        session = self.own_sessions.get((connection, node))
        if session is None:
            session = self.own_sessions[connection, node] = OwnSession()
        return session

    # Waiting

    def until_settled(self, index: int, why: str) -> Coroutine:
        """Wait for an earlier request to end. Raises SkipRequest when that takes too long."""
        gate = self.settled(index)
        if gate is not None and not gate.opened:
            opened = yield Until(gate)
            if not opened:
                raise SkipRequest(Disposition.DEPENDENCY, f"{why} did not end in time")

    def in_transaction_order(self, item: ReplayItem, conflicting: Callable[[int], bool]) -> Coroutine:
        """Wait for the earlier requests of a transactional id that must be done before this one."""
        for index in self.earlier_in_transaction(item, conflicting):
            yield from self.until_settled(index, f"an earlier request of transactional id {item.transaction}")

    def earlier_in_transaction(self, item: ReplayItem, conflicting: Callable[[int], bool]) -> Iterator[int]:
        """Give the requests of its transactional id that it waits for: those that have not ended, in their order."""
        if item.transaction is None:
            return
        order = self.loaded.transactions.get(item.transaction, ())
        begin = self.ended_until.get(item.transaction, 0)
        while begin < len(order) and order[begin] < item.request.index and self.settled(order[begin]) is None:
            begin += 1
        self.ended_until[item.transaction] = begin
        for at in range(begin, len(order)):
            index = order[at]
            if index >= item.request.index:
                return
            if conflicting(self.loaded.items[index].request.key) and self.settled(index) is not None:
                yield index

    def until_led(self, partitions: Iterable[tuple[str, int]]) -> Coroutine:
        """Wait until partitions, by captured names, have leaders. Raises SkipRequest when that takes too long.

        Whoever comes later waits no longer than the first: a partition that has lost its leader for good stops nobody twice.
        """
        for where in partitions:
            name = self.names.topic(where[0])
            while self.topology.leader(name, where[1]) == ANY:
                longest = self.now_ns() + int(self.settings.dependency_deadline_s * 1e9)
                if self.now_ns() >= self.leaderless.setdefault(where, longest):
                    raise SkipRequest(
                        Disposition.DEPENDENCY, f"{name}-{where[1]} has no leader on the target"
                    )
                self.spawn(self.refresh(), CONTROL)
                yield Pause(2 * AGAIN_NS)
            self.leaderless.pop(where, None)

    # Identity of producers

    def identity(self, item: ReplayItem, key: Key) -> Coroutine:
        """Give the target's producer id and epoch for a captured one; ask for one where the capture begins too late."""
        producers = self.producers
        known = producers.identity(key)
        if known is not None:
            return known
        issuer = self.loaded.issuers.get(key)
        if issuer is not None and issuer < item.request.index:
            yield from self.until_settled(issuer, "the request that got the producer id")
            known = producers.identity(key)
            if known is not None:
                return known
        if item.transaction is None and issuer is None:
            raised = producers.raised(key)
            if raised is not None:
                return raised
        return (yield from self.new_identity(item, key))

    def new_identity(self, item: ReplayItem, key: Key) -> Coroutine:
        """Ask the target for a producer id of our own, once for each captured one."""
        asking = self.producers.asking.get(key)
        if asking is not None:
            yield Until(asking)
            known = self.producers.identity(key)
            if known is None:
                raise SkipRequest(Disposition.DEPENDENCY, "the target gave no producer id")
            return known
        gate = self.producers.asking[key] = Gate()
        try:
            name = self.names.transactional(item.transaction) if item.transaction else None
            body: Tree = {"transactional_id": name, "transaction_timeout_ms": 60_000}
            version = (
                chosen_version(
                    ApiKey.INIT_PRODUCER_ID, 4, self.topology.versions.get(ApiKey.INIT_PRODUCER_ID)
                )
                or 0
            )
            answer = yield from self.insist(ApiKey.INIT_PRODUCER_ID, version, body, OWN_CLIENT_ID)
            said = answer.body
            if not said or said["error_code"]:
                raise SkipRequest(Disposition.DEPENDENCY, "the target gave no producer id")
            identity = Identity(said["producer_id"], said["producer_epoch"])
            self.producers.learn(key, identity)
            self.counts["producer ids asked for"] += 1
            return identity
        finally:
            del self.producers.asking[key]
            gate.open()

    def insist(
        self, key: int, version: int, body: Tree, client_id: str | None, item: ReplayItem | None = None
    ) -> Coroutine:
        """Ask a coordinator until it gives more than a passing error; the first time counts as the captured request."""
        deadline = self.now_ns() + int(self.settings.dependency_deadline_s * 1e9)
        tries = 0
        while True:
            node = yield from self.node_for(key, body)
            part = Part(key, version, body, node, client_id, wait_ms=body.get("rebalance_timeout_ms", 0))
            answers = yield Ask((part,), synthetic=tries > 0 or item is None)
            answer: Answer = answers[0]
            error = answer.errors[0] if answer.errors else 0
            if error in COORDINATOR_ERRORS:
                self.forget_coordinator(key, body)
            # A captured client that got the same passing error comes again by itself.
            captured_too = item is not None and item.error in PASSING
            if error not in PASSING or captured_too or self.now_ns() >= deadline:
                return answer
            self.counts["asked again"] += 1
            if item is not None:
                self.note(item, f"asked again after {error_name(error)}")
            yield Pause(pause_ns(tries))
            tries += 1

    def forget_coordinator(self, key: int, body: Tree) -> None:
        """Look for the coordinator again next time."""
        for kind, table in ((GROUP_KEY, OF_GROUP), (TRANSACTION_KEY, OF_TRANSACTION)):
            if key in table:
                self.topology.coordinators.pop((kind, body.get(table[key]) or ""), None)

    def heed(self, answers: list[Answer]) -> None:
        """Learn leaders anew when an answer says that they moved."""
        for answer in answers:
            if answer.errors and not LEADER_ERRORS.isdisjoint(answer.errors):
                self.spawn(self.refresh(), CONTROL)
                return


def pause_ns(tries: int) -> int:
    """Say how long to wait before trying again: a transaction ends within ms, a coordinator that moves needs longer.

    Whoever waited much longer than that would soon be late with a client that has a transaction every few ms.
    """
    return min(SOON_NS << min(tries, 8), AGAIN_NS)


@lru_cache(1 << 10)
def _version(key: int, captured: int, spoken: Range | None, least: int, most: int) -> int | None:
    limited = spoken and (max(spoken[0], least), min(spoken[1], most))
    return chosen_version(key, captured, limited)


def first_error(answers: list[Answer]) -> int | None:
    """Give the first error of some answers, 0 for none; None if nothing was answered."""
    found: int | None = None
    for answer in answers:
        if answer.errors:
            found = found or answer.errors[0]
        elif found is None and answer.body:
            found = 0
    return found
