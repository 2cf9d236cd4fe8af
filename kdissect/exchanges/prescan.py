"""The first reading of a capture: the facts from its end that must be known at its beginning.

- The name of each topic id: a fetch that uses an id may come long before the response that names it.
- The addresses of the nodes of the cluster.
- The SASL mechanism of each connection with raw tokens.
- The earliest time that later splits still hold: captures may overlap in time, and clocks may step back.

Only messages that can tell names or addresses are decoded.

No exchange that is still to come began before the *watermark*: the earliest time of what pass two holds,
which is stream bytes that are not yet part of a frame, requests that wait for their response, and responses
that came before their request.

`LiveFacts` stands in place of the prescan while a capture is still being written. It knows the names,
addresses and mechanisms that have been read so far: a topic id that is named later is shown as an id.
Nobody knows how far back in time later packets reach, so an exchange has its turn when

- nothing that is unfinished began before it, or
- it began HOLD_NS before the latest packet: a request without a response holds up later ones no longer.

An exchange that ends after its turn comes late, with its own time.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import chain
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from kdissect.capture.flow_table import FlowTable
from kdissect.capture.index.splits import EndsBefore, Split
from kdissect.capture.scan import MOST_ATTEMPTS, scan_split
from kdissect.capture.segment_index import TIME, unpack
from kdissect.exchanges.connection_log import ConnectionLog
from kdissect.jit.decorators import jit
from kdissect.jit.rows import rows_of
from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.codec.messages import decode_request
from kdissect.protocol.schema.definition import Field, Message
from kdissect.protocol.schema.registry import APIS, highest_versions
from kdissect.streams.engine import ExchangeBatch
from kdissect.streams.flow_state import (
    ANSWERED,
    BEFORE_VERSIONS,
    ORPHAN_RESPONSE,
    REQUEST_SIDE,
    RESPONSE_SIDE,
    SASL_TOKEN,
    ExchangeRow,
    State,
)
from kdissect.streams.processor import FlowProcessor
from kdissect.streams.tls.decrypt_stage import new_flow_processor
from kdissect.streams.tls.keylog import NO_KEYS, KeyLog
from kdissect.tables.message_columns import MessageColumns
from kdissect.tables.schemas import BROKERS
from kdissect.tables.topic_ids import KNOWN_NAMES, listening_nodes, named_topics
from kdissect.text import parse_uuid

ATTEMPTS = MOST_ATTEMPTS // 16  # for each split: splits are as much smaller here as this is
GSSAPI = "GSSAPI"  # the only mechanism that needs no handshake (Kafka 0.9)
GSSAPI_TAG = b"\x60"  # RFC 2743, section 3.1: how the first token begins


class PrescanResult(NamedTuple):
    """The facts about a capture as a whole."""

    names: dict[bytes, str]  # topic id -> name
    mechanisms: dict[int, str]  # identity of a connection with raw tokens -> SASL mechanism
    later_ns: tuple[int, ...]  # for each split: no packet of a later split is earlier than this
    nodes: dict[int, frozenset[tuple[str, int]]]  # node id -> (host, port) of each listener


def new_processor(splits: Sequence[Split], keys: KeyLog) -> FlowProcessor:
    """Return a processor that follows all connections of the splits, and pairs raw SASL tokens too.

    The behaviour of TCP is left out: nobody reads it, and would take more memory with every second.
    """
    versions = np.array(highest_versions(), np.int64)
    return new_flow_processor(splits, versions, keys, tokens=True, follows_tcp=False)


def scan_pieces(
    splits: Sequence[Split], ports: Iterable[int], ends_before: EndsBefore | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the pieces of each split (rows of `segment_index.PIECES`), until reading `ends_before` one."""
    flows = FlowTable(ports)
    for split in splits:
        if ends_before and ends_before(split):
            return
        pieces = scan_split(split, gathering=flows, most_attempts=ATTEMPTS)
        yield pieces.slice(0, pieces.num_rows - 1)  # the last row is that of the counts


def prescan_capture(
    splits: Sequence[Split],
    ports: Iterable[int] = (),
    keys: KeyLog = NO_KEYS,
    ends_before: EndsBefore | None = None,
) -> PrescanResult:
    """Return the facts about a capture, reading it once, until it ends or reading `ends_before` a split.

    The first of two names of one topic id is kept. Connections are forgotten by the times that were read so
    far: one that an overlapping capture has once more is read once more, and tells the same.
    """
    connections = ConnectionLog(new_processor(splits, keys))
    facts = CollectedFacts()
    earliest, latest_ns = [], 0
    for pieces in scan_pieces(splits, ports, ends_before):
        times = unpack(pieces["segments"], pieces["count"].to_numpy())[TIME]
        earliest.append(int(times.min()) if len(times) else NEVER)
        latest_ns = max(latest_ns, int(times.max(initial=0)))
        for batch in chain(connections.feed(pieces), connections.forget_over(latest_ns)):
            facts.add(batch, connections.identity)
    for batch in connections.close():
        facts.add(batch, connections.identity)
    later = np.minimum.accumulate(np.array([*earliest[1:], NEVER], np.int64)[::-1])[::-1]
    nodes = {node: frozenset(ends) for node, ends in facts.nodes.items()}
    return PrescanResult(facts.names, facts.mechanisms, tuple(later.tolist()), nodes)


class CollectedFacts:
    """Names, addresses and mechanisms, collected from batches of exchanges."""

    def __init__(self) -> None:
        self.names: dict[bytes, str] = {}
        self.nodes: dict[int, set[tuple[str, int]]] = {}
        self.mechanisms: dict[int, str] = {}
        self._add_names(KNOWN_NAMES)

    def add(self, batch: ExchangeBatch, identity: Callable[[int], int]) -> None:
        """Collect what the exchanges of a batch tell; `identity` is that of a connection of the batch."""
        status = batch.exchanges["status"]
        is_kafka07 = batch.exchanges["api_version"] == BEFORE_VERSIONS
        key = np.where(is_kafka07, -1, batch.exchanges["api_key"])
        requests = np.flatnonzero((status != ORPHAN_RESPONSE) & np.isin(key, NAMING_REQUESTS))
        responses = np.flatnonzero((status == ANSWERED) & np.isin(key, NAMING_RESPONSES))
        for side, rows in ((REQUEST_SIDE, requests), (RESPONSE_SIDE, responses)):
            if len(rows):
                columns = MessageColumns.read(batch, side, rows)
                self._add_names(named_topics(batch, columns))
                self._add_nodes(listening_nodes(batch, columns))
        with_mechanism = batch.exchanges[(key == ApiKey.SASL_HANDSHAKE) | (status == SASL_TOKEN)]
        for row in rows_of(ExchangeRow, with_mechanism):
            self._add_mechanism(batch, row, identity(row.connection))

    def _add_names(self, names: pa.RecordBatch) -> None:
        for topic_id, name in zip(names["topic_id"].to_pylist(), names["topic"].to_pylist(), strict=True):
            if name:
                self.names.setdefault(parse_uuid(topic_id), name)

    def _add_nodes(self, nodes: pa.RecordBatch) -> None:
        for node, host, port in zip(*(nodes[name].to_pylist() for name in BROKERS.names), strict=True):
            if host:
                self.nodes.setdefault(node, set()).add((host, port))

    def _add_mechanism(self, batch: ExchangeBatch, row: ExchangeRow, identity: int) -> None:
        if identity in self.mechanisms:
            return
        mechanism_of = token_mechanism if row.status == SASL_TOKEN else requested_mechanism
        mechanism = mechanism_of(batch.arena[row.request.start : row.request.stop].tobytes())
        if mechanism is not None:
            self.mechanisms[identity] = mechanism


def requested_mechanism(frame: bytes) -> str | None:
    """Return the mechanism that a SaslHandshake request asks for; None if it cannot be decoded."""
    mechanism: str | None = (decode_request(frame).body or {}).get("mechanism")
    return mechanism


def token_mechanism(frame: bytes) -> str | None:
    """Return the mechanism of the first token on a connection without handshake; None if it is not GSSAPI."""
    return GSSAPI if frame.startswith(GSSAPI_TAG) else None


@cache
def _tells_names(owner: Message | Field) -> bool:
    """Return whether a struct of a message has a topic's name beside its id, or a node beside its address."""
    roles = {field.role for field in owner.fields}
    pairs = ({"topic", "topic_id"}, {"broker", "host", "port"})
    return any(pair <= roles for pair in pairs) or any(_tells_names(field) for field in owner.fields)


# Produce and Fetch never have both: name and id are of different versions.
_NAME_OR_ID = (ApiKey.PRODUCE, ApiKey.FETCH)
NAMING_REQUESTS = [key for key, api in APIS.items() if _tells_names(api.request) and key not in _NAME_OR_ID]
NAMING_RESPONSES = [key for key, api in APIS.items() if _tells_names(api.response) and key not in _NAME_OR_ID]


NEVER = (1 << 63) - 1


@jit
def earliest_unfinished(state: State, connections: int) -> int:
    """Return the earliest time (ns) that the first `connections` connections hold.

    NEVER if they are empty.
    """
    earliest = NEVER
    for number in range(2 * connections):
        direction = state.directions[number]
        for first in (direction.head, direction.ahead):
            node = first
            while node >= 0:
                time = state.chunks[node].time_ns
                if 0 <= time < earliest:
                    earliest = time
                node = state.chunks[node].next
    for connection in range(connections):
        node = state.connections[connection].first_waiting
        while node >= 0:
            earliest = min(earliest, state.waiting[node].request.first_byte_ns)
            node = state.waiting[node].next
        node = state.connections[connection].first_early
        while node >= 0:
            earliest = min(earliest, state.waiting[node].response.first_byte_ns)
            node = state.waiting[node].next
    return earliest


HOLD_NS = 2 * 10**9
"""How long unfinished exchanges hold up those that began after them."""


class LiveFacts(CollectedFacts):
    """Facts that are collected while the capture is read."""

    def __init__(self, latest_ns: Callable[[], int]) -> None:
        """`latest_ns` returns the time of the latest packet so far."""
        super().__init__()
        self._latest_ns = latest_ns

    def complete_ns(self, unfinished_ns: int) -> int:
        """Return the time before which no exchange is waited for.

        `unfinished_ns` is the earliest time of what is unfinished.
        """
        latest = self._latest_ns()
        return min(max(unfinished_ns, latest - HOLD_NS), latest)
