"""The first look at a capture, before anything is dumped: what must be known of it from its end.

Three things: which name a topic id has, since a fetch that uses an id may come long before the answer that names it; where
the nodes of the cluster listen; and how early the packets are that are still to come, since captures may overlap in time
and clocks may step back. Only messages that can tell names or addresses are read; everything else is just followed.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from kdissect.capture.flow_table import FlowTable
from kdissect.capture.index.splits import Split
from kdissect.capture.scan import MOST_ATTEMPTS, scan_split
from kdissect.capture.segment_index import TIME, unpack
from kdissect.exchanges.sasl_tokens import requested_mechanism, token_mechanism
from kdissect.exchanges.watermark import NEVER
from kdissect.jit.rows import rows_of
from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.schema.definition import Field, Message
from kdissect.protocol.schema.registry import APIS, highest_versions
from kdissect.streams.flow_state import (
    ANSWERED,
    BEFORE_VERSIONS,
    ORPHAN_RESPONSE,
    REQUEST_SIDE,
    RESPONSE_SIDE,
    SASL_TOKEN,
    ExchangeRow,
)
from kdissect.streams.processor import ExchangeBatch, FlowProcessor
from kdissect.streams.tls.keylog import NO_KEYS, KeyLog
from kdissect.tables.message_columns import MessageColumns
from kdissect.tables.schemas import BROKERS
from kdissect.tables.topic_ids import (
    KNOWN_NAMES,
    listening_nodes,
    named_topics,
)
from kdissect.text import parse_uuid

ATTEMPTS = MOST_ATTEMPTS // 16  # in one split, which are as much smaller here


class PrescanResult(NamedTuple):
    """What a capture says as a whole."""

    names: dict[bytes, str]  # topic id -> name
    mechanisms: dict[int, str]  # row of a connection -> SASL mechanism, where raw tokens follow
    coming_ns: tuple[int, ...]  # for each split: no packet of a later split is earlier than this
    nodes: dict[int, frozenset[tuple[str, int]]] = {}  # noqa: RUF012 - never changed; node id -> where it listens


def new_conversations(splits: Sequence[Split], keys: KeyLog) -> FlowProcessor:
    """Make pass two ready to follow all connections."""
    return FlowProcessor(splits, np.array(highest_versions(), np.int64), keys, tokens=True)


def pieces_of(splits: Sequence[Split], ports: Iterable[int]) -> Iterator[pa.RecordBatch]:
    """Give each split's pieces, in the order of the splits."""
    gathering = FlowTable(ports)
    for split in splits:
        pieces = scan_split(split, gathering=gathering, most_attempts=ATTEMPTS)
        yield pieces.slice(0, pieces.num_rows - 1)  # the last row is that of the counts


def prescan_capture(
    splits: Sequence[Split], ports: Iterable[int] = (), keys: KeyLog = NO_KEYS
) -> PrescanResult:
    """Follow the whole capture once; of two names for one id the first is kept."""
    conversations = new_conversations(splits, keys)
    learner = _Learner()
    earliest = []
    for pieces in pieces_of(splits, ports):
        times = unpack(pieces["segments"], pieces["count"].to_numpy())[TIME]
        earliest.append(int(times.min()) if len(times) else NEVER)
        for harvest in conversations.feed(pieces):
            learner.learn(harvest)
    for harvest in conversations.close():
        learner.learn(harvest)
    later = np.minimum.accumulate(np.array([*earliest[1:], NEVER], np.int64)[::-1])[::-1]
    nodes = {node: frozenset(ends) for node, ends in learner.nodes.items()}
    return PrescanResult(learner.names, learner.mechanisms, tuple(later.tolist()), nodes)


class _Learner:
    """Collects names and mechanisms."""

    def __init__(self) -> None:
        self.names: dict[bytes, str] = {}
        self.nodes: dict[int, set[tuple[str, int]]] = {}
        self.mechanisms: dict[int, str] = {}
        self._keep(KNOWN_NAMES)

    def learn(self, harvest: ExchangeBatch) -> None:
        status = harvest.exchanges["status"]
        old = harvest.exchanges["api_version"] == BEFORE_VERSIONS
        key = np.where(old, -1, harvest.exchanges["api_key"])
        asks = np.flatnonzero((status != ORPHAN_RESPONSE) & np.isin(key, NAMING_REQUESTS))
        tells = np.flatnonzero((status == ANSWERED) & np.isin(key, NAMING_RESPONSES))
        for side, rows in ((REQUEST_SIDE, asks), (RESPONSE_SIDE, tells)):
            if len(rows):
                read = MessageColumns(harvest, side, rows)
                self._keep(named_topics(harvest, read))
                self._keep_nodes(listening_nodes(harvest, read))
        chosen = harvest.exchanges[(key == ApiKey.SASL_HANDSHAKE) | (status == SASL_TOKEN)]
        for row in rows_of(ExchangeRow, chosen):
            self._take_mechanism(harvest, row)

    def _keep(self, named: pa.RecordBatch) -> None:
        for identity, name in zip(named["topic_id"].to_pylist(), named["topic"].to_pylist(), strict=True):
            if name:
                self.names.setdefault(parse_uuid(identity), name)

    def _keep_nodes(self, nodes: pa.RecordBatch) -> None:
        for node, host, port in zip(*(nodes[name].to_pylist() for name in BROKERS.names), strict=True):
            if host:
                self.nodes.setdefault(node, set()).add((host, port))

    def _take_mechanism(self, harvest: ExchangeBatch, row: ExchangeRow) -> None:
        if row.connection in self.mechanisms:
            return
        tell = token_mechanism if row.status == SASL_TOKEN else requested_mechanism
        mechanism = tell(harvest.arena[row.request.start : row.request.stop].tobytes())
        if mechanism is not None:
            self.mechanisms[row.connection] = mechanism


@cache
def _tells(owner: Message | Field) -> bool:
    """Tell whether some struct of a message holds a topic's name and its id side by side, or a node and its address."""
    roles = {field.role for field in owner.fields}
    sides = ({"topic", "topic_id"}, {"broker", "host", "port"})
    return any(side <= roles for side in sides) or any(_tells(field) for field in owner.fields)


# Produce and Fetch never have both: name and id are of different versions.
_VERSIONED = (ApiKey.PRODUCE, ApiKey.FETCH)
NAMING_REQUESTS = [key for key, api in APIS.items() if _tells(api.request) and key not in _VERSIONED]
NAMING_RESPONSES = [key for key, api in APIS.items() if _tells(api.response) and key not in _VERSIONED]
