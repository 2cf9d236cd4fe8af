"""Facts of a Fetch response, read without making a tree of it: bounds of logs, and ends of records.

A response is read this way if all is well: no error, no tagged field, a version with sessions (KIP-227). For
every other one `scan_fetch_response` returns None, and the codec decodes it. Records stay where they are.
"""

import struct
from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.codec.wire import (
    SIZED,
    DecodeError,
    count_length,
)
from kdissect.protocol.records.batches import whole_end
from kdissect.protocol.schema.registry import APIS, response_header_version
from kdissect.replay.rewrite.versions import TOPIC_IDS_IN_FETCH

SESSIONS, REPLICAS = 7, 11
HEAD = struct.Struct(">ihi")  # throttle time, error, session
PARTITION = struct.Struct(">ihqqq")  # number, error, high watermark, last stable offset, start of the log
ABORTED_BYTES, REPLICA_BYTES, ID_BYTES = 16, 4, 16


class FetchedRecords(NamedTuple):
    """Facts of a response about one partition."""

    topic: str | bytes  # its name, or its id if the version has ids
    partition: int
    high_watermark: int
    log_start: int
    following: int | None  # the offset behind the last whole batch
    size: int  # bytes of whole batches


class ScannedFetch(NamedTuple):
    """A response in which all is well."""

    session: int
    partitions: Sequence[FetchedRecords]


def scan_fetch_response(frame: bytes, version: int) -> ScannedFetch | None:
    """Return what a response says, given without its length; None for one that has to be decoded."""
    if version < SESSIONS:
        return None
    try:
        return _scan(frame, version)
    except (DecodeError, struct.error, IndexError):
        return None


@cache
def _layout(version: int) -> tuple[bool, int, Callable[[bytes, int, int], tuple[int, int]]]:
    """Return whether a version is flexible, where its body begins, and how it counts."""
    flexible = version in APIS[ApiKey.FETCH].flexible
    return flexible, 4 + response_header_version(ApiKey.FETCH, version), count_length(flexible).read


def _scan(frame: bytes, version: int) -> ScannedFetch | None:
    flexible, at, read_count = _layout(version)
    end = len(frame)
    if flexible and frame[4]:
        return None
    _, error, session = HEAD.unpack_from(frame, at)
    topics, at = read_count(frame, at + HEAD.size, end)
    if error:
        return None
    found: list[FetchedRecords] = []
    for _ in range(topics):
        topic, at = _topic(frame, at, end, version, flexible)
        partitions, at = read_count(frame, at, end)
        for _ in range(partitions):
            number, error, high, _, start = PARTITION.unpack_from(frame, at)
            if error:
                return None
            aborted, at = read_count(frame, at + PARTITION.size, end)
            at += max(aborted, 0) * (ABORTED_BYTES + flexible) + (REPLICA_BYTES if version >= REPLICAS else 0)
            size, at = read_count(frame, at, end)
            stop = at + max(size, 0)
            if stop > end:
                return None
            found.append(FetchedRecords(topic, number, high, start, *whole_end(frame, at, stop)))
            at = stop
            if flexible:
                if frame[at]:
                    return None
                at += 1
        if flexible:
            if frame[at]:
                return None
            at += 1
    return ScannedFetch(session, found) if at + flexible == end and not (flexible and frame[at]) else None


def _topic(frame: bytes, at: int, end: int, version: int, flexible: bool) -> tuple[str | bytes, int]:
    if version >= TOPIC_IDS_IN_FETCH:
        return frame[at : at + ID_BYTES], at + ID_BYTES
    size, at = SIZED["string"][flexible].read(frame, at, end)
    return frame[at : at + size].decode("utf-8", "surrogateescape"), at + size
