"""Fetch requests as bytes: encoded once for all that differ only in session and offsets.

In: a `FetchShape` (all of a fetch but its session, its offsets and how long it waits), the session's turn,
and the partitions to name. Out: a `Part`. Most fetches have the shape of one before, so the encoded frame of
a shape is kept with the positions of its numbers, and the numbers of the moment are laid over it. A fetch
that names many partitions is encoded as it is.
"""

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.codec.messages import encode_request
from kdissect.replay.effects import Part
from kdissect.replay.rewrite.names import Names, Tree
from kdissect.replay.rewrite.versions import TOPIC_IDS_IN_FETCH
from kdissect.replay.target.fetch_sessions import SessionTurn

FETCH = int(ApiKey.FETCH)
SESSIONS, RACKS, LAST_WITH_REPLICA = 7, 11, 14  # versions: KIP-227, KIP-392, KIP-903
SESSION = struct.Struct(">ii")  # its id and epoch
PATIENCE = struct.Struct(">ii")  # max_wait_ms and min_bytes, which follow each other in all versions
MOST_OFFSETS = 16  # in a template: a fetch that names more is not often repeated
MARKER = 0x6B64_6973_7365_6300  # numbers from here on stand for offsets, and can be found in a frame
SIZE_MARKER = 0x7B64_5300  # and these for sizes


class Patience(NamedTuple):
    """How long a fetch waits, and for how much."""

    max_wait_ms: int
    min_bytes: int


class FetchShape(NamedTuple):
    """All of a fetch but its session, its offsets and its patience."""

    version: int
    client_id: str | None
    max_bytes: int
    isolation_level: int
    named: tuple[tuple[str | bytes, int], ...] = ()  # topic, partition
    forgotten: tuple[tuple[str | bytes, int], ...] = ()  # topic, partition


class FetchTemplate(NamedTuple):
    """An encoded fetch with its length, and the positions of its numbers."""

    frame: bytes
    patience: int
    session: int
    partitions: tuple[tuple[int, int], ...]  # of its offset, and of the most bytes that it may have


def fetch_part(
    names: Names,
    shape: FetchShape,
    template: FetchTemplate | None,
    turn: SessionTurn,
    node: int,
    patience: Patience,
) -> Part:
    """Return a fetch for one node.

    `shape` names no partition yet, and `template` is its frame if it stays so.
    """
    version, (session_id, epoch, named, forgotten) = shape.version, turn
    if named or forgotten:
        shape = FetchShape(
            *shape[:-2],
            tuple([(_topic(names, topic, version), number) for topic, number in named]),
            tuple([(_topic(names, topic, version), number) for topic, number in forgotten]),
        )
        template = fetch_template(shape) if len(named) <= MOST_OFFSETS else None
    session: Tree = {"min_bytes": patience.min_bytes}
    if version >= SESSIONS:
        session |= {"session_id": session_id, "session_epoch": epoch}
    limits = [(fields["fetch_offset"], fields["partition_max_bytes"]) for fields in named.values()]
    if template is None:
        body = _body(shape, patience, limits) | session
        return Part(FETCH, version, body, node, shape.client_id, wait_ms=patience.max_wait_ms)
    heads = [(template.patience, PATIENCE.pack(*patience))]
    if version >= SESSIONS:
        heads.append((template.session, SESSION.pack(session_id, epoch)))
    for (place, size_place), (offset, size) in zip(template.partitions, limits, strict=True):
        heads.append((place, offset.to_bytes(8, "big", signed=True)))
        heads.append((size_place, size.to_bytes(4, "big", signed=True)))
    heads.sort()  # a topic may come again behind others; in the frame its partitions stand together
    return Part(
        FETCH,
        version,
        session,
        node,
        shape.client_id,
        False,
        patience.max_wait_ms,
        template.frame,
        False,
        tuple(heads),
    )


@lru_cache(1 << 13)
def fetch_template(shape: FetchShape) -> FetchTemplate | None:
    """Return the encoded fetch of a shape; None if its numbers cannot be told from the rest of it."""
    offsets = [MARKER + number for number in range(len(shape.named))]
    sizes = [SIZE_MARKER + number for number in range(len(shape.named))]
    patience, session = MARKER + 0xFE, MARKER + 0xFF
    body = _body(
        shape, Patience(patience >> 32, patience & 0xFFFFFFFF), list(zip(offsets, sizes, strict=True))
    )
    if shape.version >= SESSIONS:
        body["session_id"], body["session_epoch"] = session >> 32, session & 0xFFFFFFFF
    header = {
        "request_api_key": FETCH,
        "request_api_version": shape.version,
        "correlation_id": 0,
        "client_id": shape.client_id,
    }
    frame = encode_request(header, body)
    frame = len(frame).to_bytes(4, "big") + frame
    markers = [each.to_bytes(8, "big") for each in (patience, session, *offsets)]
    markers += [each.to_bytes(4, "big") for each in sizes]
    if any(frame.count(each) > 1 for each in markers):
        return None
    wait, session_place, *positions = (frame.find(each) for each in markers)
    places = tuple(zip(positions[: len(offsets)], positions[len(offsets) :], strict=True))
    return FetchTemplate(frame, wait, session_place, places)


def _body(shape: FetchShape, patience: Patience, limits: Sequence[tuple[int, int]]) -> Tree:
    body: Tree = {
        **patience._asdict(),
        "max_bytes": shape.max_bytes,
        "isolation_level": shape.isolation_level,
    }
    if shape.version >= RACKS:
        body["rack_id"] = ""
    if shape.version <= LAST_WITH_REPLICA:
        body["replica_id"] = -1
    name = "topic_id" if shape.version >= TOPIC_IDS_IN_FETCH else "topic"
    topics: dict[str | bytes, list[Tree]] = {}
    for (topic, partition), (offset, size) in zip(shape.named, limits, strict=True):
        fields = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": size}
        topics.setdefault(topic, []).append(fields)
    body["topics"] = [{name: topic, "partitions": each} for topic, each in topics.items()]
    if shape.forgotten:
        gone: dict[str | bytes, list[int]] = {}
        for topic, partition in shape.forgotten:
            gone.setdefault(topic, []).append(partition)
        body["forgotten_topics_data"] = [{name: topic, "partitions": each} for topic, each in gone.items()]
    return body


def _topic(names: Names, topic: str, version: int) -> str | bytes:
    return names.id_of(topic) if version >= TOPIC_IDS_IN_FETCH else topic
