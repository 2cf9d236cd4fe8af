"""The first look at a capture, before anything is dumped: what must be known of it from its end.

Two things: which name a topic id has, since a fetch that uses an id may come long before the answer that names it; and how
early the packets are that are still to come, since captures may overlap in time and clocks may step back. Only messages
that can tell names are read; everything else is just followed.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from kdissect.capture.gather import Gathering
from kdissect.capture.pieces import TIME, unpack
from kdissect.capture.scan import scan
from kdissect.capture.splits import Split
from kdissect.dump.unfinished import NEVER
from kdissect.exchange.conversation import Conversations, Harvest
from kdissect.exchange.state import (
    ANSWERED,
    API_KEY,
    API_VERSION,
    BEFORE_VERSIONS,
    ORPHAN_RESPONSE,
    REQUEST_SIDE,
    RESPONSE_SIDE,
    START,
    STATUS,
    STOP,
)
from kdissect.protocol.headers import decode_request, decode_response
from kdissect.protocol.layout import Field, Message
from kdissect.protocol.schema import APIS, highest_versions

MOST_READ = 1 << 16  # different messages that are read for names


class Foresight(NamedTuple):
    """What a capture says as a whole."""

    names: dict[bytes, str]  # topic id -> name
    coming_ns: tuple[int, ...]  # for each split: no packet of a later split is earlier than this


def new_conversations(splits: Sequence[Split]) -> Conversations:
    """Make pass two ready to follow all connections."""
    return Conversations(splits, np.array(highest_versions(), np.int64))


def pieces_of(splits: Sequence[Split], ports: Iterable[int]) -> Iterator[pa.RecordBatch]:
    """Give each split's pieces, in the order of the splits."""
    gathering = Gathering(ports)
    for split in splits:
        pieces = scan(split, gathering=gathering)
        yield pieces.slice(0, pieces.num_rows - 1)  # the last row is that of the counts


def look_ahead(splits: Sequence[Split], ports: Iterable[int] = ()) -> Foresight:
    """Follow the whole capture once; of two names for one id the first is kept."""
    conversations = new_conversations(splits)
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
    return Foresight(learner.names, tuple(later.tolist()))


class _Learner:
    """Collects names; a message that says the same as one before (as metadata does all the time) is not read again."""

    def __init__(self) -> None:
        self.names: dict[bytes, str] = {}
        self._read: set[int] = set()

    def learn(self, harvest: Harvest) -> None:
        status = harvest.exchanges[:, STATUS]
        old = harvest.exchanges[:, API_VERSION] == BEFORE_VERSIONS
        key = np.where(old, -1, harvest.exchanges[:, API_KEY])
        for row in np.flatnonzero((status != ORPHAN_RESPONSE) & np.isin(key, NAMING_REQUESTS)).tolist():
            self._take(harvest, row, REQUEST_SIDE)
        for row in np.flatnonzero((status == ANSWERED) & np.isin(key, NAMING_RESPONSES)).tolist():
            self._take(harvest, row, RESPONSE_SIDE)

    def _take(self, harvest: Harvest, row: int, side: int) -> None:
        columns = harvest.exchanges[row]
        frame = harvest.arena[columns[side + START] : columns[side + STOP]].tobytes()
        seen = hash(frame[4:] if side == RESPONSE_SIDE else frame[8:])  # but for the correlation id
        if seen in self._read or len(self._read) >= MOST_READ:
            return
        self._read.add(seen)
        key, version = int(columns[API_KEY]), int(columns[API_VERSION])
        if side == RESPONSE_SIDE:
            message, whole = APIS[key].response, decode_response(frame, key, version)
        else:
            message, whole = APIS[key].request, decode_request(frame)
        if whole.body is not None and whole.version is not None:
            self._walk(message, whole.version, whole.body)

    def _walk(self, owner: Message | Field, version: int, value: dict[str, Any]) -> None:
        roles = {field.role: field.name for field in owner.fields if version in field.versions}
        if {"topic", "topic_id"} <= roles.keys():
            name, identity = value.get(roles["topic"]), value.get(roles["topic_id"])
            if name and identity and any(identity):
                self.names.setdefault(identity, name)
        for field in owner.fields:
            inner = value.get(field.name)
            if field.type == "struct" and inner and _names_topics(field):
                for item in inner if field.array else [inner]:
                    self._walk(field, version, item)


@cache
def _names_topics(owner: Message | Field) -> bool:
    """Tell whether some struct of a message holds a topic's name and its id side by side."""
    roles = {field.role for field in owner.fields}
    return {"topic", "topic_id"} <= roles or any(_names_topics(field) for field in owner.fields)


# Produce and Fetch never have both: name and id are of different versions.
_VERSIONED = (0, 1)
NAMING_REQUESTS = [key for key, api in APIS.items() if _names_topics(api.request) and key not in _VERSIONED]
NAMING_RESPONSES = [key for key, api in APIS.items() if _names_topics(api.response) and key not in _VERSIONED]
