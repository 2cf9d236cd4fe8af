"""The message sets of Kafka 0.7: what producers wrote before messages had keys and offsets.

A message is an int32 length, a magic byte (0 or 1), an attributes byte if the magic is 1, the CRC-32 of the
payload, and the payload. Its offset is its position in the log, so a message set does not say it. The low two
bits of the attributes are the codec; the payload of a compressed message (gzip or snappy) is a message set
again, which may hold compressed messages in turn.

In come the bytes of a set, out come `SetRecord`s, and a `RecordFault` in place of what could not be read. A
last message that is cut is no fault: brokers cut a fetch anywhere. All decompression of one set together is
bounded by `limit`.
"""

import zlib
from collections.abc import Iterator
from typing import NamedTuple

from kdissect.protocol.records.compression import (
    LIMIT,
    Damage,
    decompress,
)
from kdissect.protocol.records.record_decoder import RecordFault

LENGTH = 4
CHECKSUM = 4
CODEC_BITS = 0x03
NONE, GZIP, SNAPPY = range(3)
DEEPEST = 4  # compressed sets inside compressed sets; clients make one


class SetMessage(NamedTuple):
    """One whole message as it stands in a set."""

    position: int  # of its first byte, from the start of the set
    size: int  # bytes, its length field included
    magic: int
    attributes: int
    checksum_holds: bool
    payload: bytes

    @property
    def codec(self) -> int:
        """Return the codec that compressed the payload."""
        return self.attributes & CODEC_BITS


class SetRecord(NamedTuple):
    """One message of a producer, and the outermost message around it (itself, if not compressed)."""

    frame: SetMessage
    value: bytes


class SetSummary(NamedTuple):
    """Contents of a message set."""

    records: int  # those inside compressed messages too
    batches: int  # whole messages, a compressed one counted once
    codec: int  # of the first message, -1 if there is none
    fault: RecordFault | None  # the first


def set_messages(data: bytes) -> Iterator[SetMessage | RecordFault]:
    """Yield message after message by their lengths, up to one that is cut or behind a fault."""
    position = 0
    while position + LENGTH < len(data):
        length = int.from_bytes(data[position : position + LENGTH], signed=True)
        magic = data[position + LENGTH]
        if magic > 1:
            yield RecordFault(position, f"magic {magic} is not known")
            return
        if length < 1 + magic + CHECKSUM:
            yield RecordFault(position, f"length {length} is too small")
            return
        stop = position + LENGTH + length
        if stop > len(data):
            return
        checksum = position + LENGTH + 1 + magic
        payload = data[checksum + CHECKSUM : stop]
        holds = zlib.crc32(payload) == int.from_bytes(data[checksum : checksum + CHECKSUM])
        yield SetMessage(
            position, stop - position, magic, data[position + LENGTH + 1] if magic else 0, holds, payload
        )
        position = stop


def cut_bytes(data: bytes) -> int:
    """Return the bytes of a last message that is cut; 0 if the set ends with a whole one or with a fault."""
    reached = 0
    for frame in set_messages(data):
        if isinstance(frame, RecordFault):
            return 0
        reached = frame.position + frame.size
    return len(data) - reached


def read_set_records(data: bytes, limit: int = LIMIT) -> Iterator[SetRecord | RecordFault]:
    """Yield every message of a set; those inside a compressed message stand in its place."""
    room = _Room(limit)
    for frame in set_messages(data):
        if isinstance(frame, RecordFault):
            yield frame
            continue
        for value in _values(frame, room, 0):
            if isinstance(value, bytes):
                yield SetRecord(frame, value)
            else:
                yield RecordFault(frame.position, value.reason, value.too_large)
                break


def summarise_message_set(data: bytes, limit: int = LIMIT) -> SetSummary:
    """Return what a set holds."""
    records, batches, codec = 0, 0, -1
    fault: RecordFault | None = None
    for frame in set_messages(data):
        if not isinstance(frame, RecordFault):
            batches += 1
            codec = frame.codec if codec < 0 else codec
    for record in read_set_records(data, limit):
        if isinstance(record, SetRecord):
            records += 1
        elif fault is None:
            fault = record
    return SetSummary(records, batches, codec, fault)


class _Room:
    """How many bytes may still be decompressed."""

    def __init__(self, limit: int) -> None:
        self.left = limit


def _values(frame: SetMessage, room: _Room, depth: int) -> Iterator[bytes | Damage]:
    """Return the payloads inside a message; a `Damage` ends them."""
    if frame.codec == NONE:
        yield frame.payload
        return
    if frame.codec > SNAPPY:
        yield Damage(f"codec {frame.codec} is not known")
        return
    if depth >= DEEPEST:
        yield Damage(f"more than {DEEPEST} compressed messages inside each other")
        return
    plain = decompress(frame.codec, frame.payload, room.left)
    if isinstance(plain, Damage):
        yield plain
        return
    room.left -= len(plain)
    for inner in set_messages(plain):
        if isinstance(inner, RecordFault):
            yield Damage(f"{inner.reason}, at byte {inner.position} when decompressed")
            return
        for value in _values(inner, room, depth + 1):
            yield value
            if isinstance(value, Damage):
                return
    if cut := cut_bytes(plain):
        yield Damage(f"ends in the middle of a message, {cut} bytes of it, when decompressed")
