"""Input of a plan and a run: the captured requests, and all that is known of them."""

from dataclasses import dataclass, field

from kdissect.replay.identifiers import (
    FetchSessionKey,
    MemberKey,
    ProducerKey,
    RecordPosition,
    TopicPartition,
)
from kdissect.replay.load.captured_cluster import CapturedCluster
from kdissect.replay.load.captured_fetch_sessions import FetchedPartitions
from kdissect.replay.load.captured_reads import CapturedReads
from kdissect.replay.load.captured_shares import CapturedShares
from kdissect.replay.load.connection_groups import ConnectionGroups
from kdissect.replay.load.decoded_cache import DecodedCache
from kdissect.replay.load.known_requests import KnownRequests
from kdissect.replay.load.prior_members import PriorMember
from kdissect.replay.load.replay_items import ReplayItems
from kdissect.replay.load.request_order import GroupOrder, LastWriters
from kdissect.replay.load.requests import Capture
from kdissect.replay.rewrite.names import Names


@dataclass(slots=True, eq=False, weakref_slot=True)
class ReplayInput:
    """All that is known of the captures of a replay. It is equal to itself only.

    Requests go by their index in the order of the capture.
    """

    capture: Capture
    names: Names
    items: ReplayItems = field(init=False)
    known: KnownRequests = field(init=False)
    bodies: DecodedCache = field(default_factory=DecodedCache)
    source: CapturedCluster = field(default_factory=CapturedCluster)
    starts: dict[TopicPartition, int] = field(default_factory=dict)  # start of each log, as seen first
    created: set[str] = field(default_factory=set)  # topics that a request is sent to create
    records: int = 0  # that are produced
    record_bytes: int = 0

    # Order and limits.
    caps: dict[int, int] = field(default_factory=dict)  # connection -> most requests in flight
    issuers: dict[ProducerKey, int] = field(default_factory=dict)  # producer -> the request that got its id
    after: dict[int, set[int]] = field(default_factory=dict)  # request -> earlier ones on other connections
    transactions: dict[str, list[int]] = field(default_factory=dict)  # transactional id -> its requests
    connection_groups: ConnectionGroups = field(default_factory=ConnectionGroups)

    reads: CapturedReads = field(default_factory=CapturedReads)
    shares: CapturedShares = field(default_factory=CapturedShares)
    group_order: GroupOrder = field(default_factory=GroupOrder)
    last_writers: LastWriters = field(default_factory=LastWriters)

    # Retries: request -> partition -> the earlier attempts. Without idempotence they are known by record.
    retries: dict[int, dict[TopicPartition, tuple[int, ...]]] = field(default_factory=dict)
    repeats: dict[int, dict[TopicPartition, dict[RecordPosition, tuple[int, ...]]]] = field(
        default_factory=dict
    )

    # Sessions and members.
    sessions: dict[int, int] = field(default_factory=dict)  # fetch -> the session that its response opened
    older_sessions: dict[FetchSessionKey, FetchedPartitions] = field(default_factory=dict)
    prior_members: dict[MemberKey, PriorMember] = field(default_factory=dict)
    assignments: dict[tuple[str, int], dict[str, bytes]] = field(
        default_factory=dict
    )  # (group, generation) -> member -> assignment

    def __post_init__(self) -> None:
        self.items = ReplayItems(self.capture.requests)

    def produce_waits(self, index: int) -> bool:
        """Return whether a Produce request waits for how other requests end."""
        tried = index in self.retries or index in self.repeats
        return tried or index in self.after or self.last_writers.change_topics

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
