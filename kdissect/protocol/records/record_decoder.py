"""Read the records of one partition out of a records field: plain Python, one frozen object per record.

In come the bytes of a records field, out come `Record`s in the order they stand there, and a `RecordFault` in
place of what could not be read. A batch has its length in front, so the batch after a bad one is still read.
A last batch that is cut is no fault: brokers cut a fetch anywhere, and nobody reads such a batch.

Compressed batches are decompressed, together to no more than `limit` bytes per field. A compressed message of
magic 0 or 1 wraps a message set. Its inner offsets are absolute with magic 0, and relative with magic 1,
where the wrapper has the offset of the last one inside, or 0 if a producer did not care; if the broker
stamped the wrapper, its time stands for all inside (KIP-31, KIP-32).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from kdissect.protocol.records.batch_summary import summary_of
from kdissect.protocol.records.batches import (
    CODEC_BITS,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    BatchFrame,
    read_header,
    rest_of_field,
    whole_batches,
)
from kdissect.protocol.records.compression import (
    LIMIT,
    Damage,
    decompress,
)
from kdissect.protocol.records.crc32c import checksum_holds

CONTROL_NAMES = {  # the type in the key of a record in a control batch
    0: "abort",
    1: "commit",
    2: "leader_change",
    3: "snapshot_header",
    4: "snapshot_footer",
    5: "kraft_version",
    6: "kraft_voters",
}


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """Facts in the header of a record batch about all its records.

    A message of magic 0 or 1 is its own batch.
    """

    position: int  # of its first byte, from the start of the records field
    magic: int
    codec: int
    base_offset: int  # of its first record, also for a compressed message of magic 0 or 1
    log_append_time: bool
    checksum_holds: bool | None
    transactional: bool = False
    control: bool = False
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1


class RecordHeader(NamedTuple):
    """A record's header. Its key is text by convention only."""

    key: bytes
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Record:
    """One record.

    Magic 0 has no timestamp; only magic 2 has headers and control records (see CONTROL_NAMES).
    """

    batch: RecordBatch
    offset: int
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    headers: tuple[RecordHeader, ...] = ()
    control: int | None = None


@dataclass(frozen=True, slots=True)
class RecordFault:
    """A batch that could not be read (to its end), and why.

    The position is the batch's in the records field.
    """

    position: int
    reason: str
    too_large: bool = False  # it may well be right, and becomes more than may be decompressed


def read_records(data: bytes, limit: int = LIMIT) -> Iterator[Record | RecordFault]:
    """Yield every record of a records field; at most `limit` bytes are decompressed in all."""
    room = _Room(limit)
    for frame in _frames(data):
        if isinstance(frame, RecordFault):
            yield frame
            continue
        try:
            yield from READERS[frame.magic](data, frame, room)
        except _Malformed as error:
            yield RecordFault(frame.start, str(error), isinstance(error, _TooLarge))


def count_records(data: bytes, limit: int = LIMIT) -> int | RecordFault:
    """Return how many records a field holds, those inside compressed messages of magic 0 and 1 included."""
    room, total = _Room(limit), 0
    for frame in _frames(data):
        if isinstance(frame, RecordFault):
            return frame
        try:
            total += _count(data, frame, room)
        except _Malformed as error:
            return RecordFault(frame.start, str(error), isinstance(error, _TooLarge))
    return total


class _Malformed(Exception):
    """Ends the reading of one batch; never leaves this module."""


class _TooLarge(_Malformed):
    """It becomes more than may be decompressed."""


class _Room:
    """How many bytes may still be decompressed."""

    def __init__(self, limit: int) -> None:
        self.left = limit

    def decompress(self, codec: int, data: bytes) -> bytes:
        plain = decompress(codec, data, self.left)
        if isinstance(plain, Damage):
            raise (_TooLarge if plain.too_large else _Malformed)(plain.reason)
        self.left -= len(plain) if codec else 0
        return plain


def _frames(data: bytes) -> Iterator[BatchFrame | RecordFault]:
    """Yield the whole batches of a field, and a fault for bytes behind them that are no batch."""
    end = 0
    for frame in whole_batches(data):
        yield frame
        end = frame.stop
    rest = rest_of_field(data, end)
    if rest is not None and rest.reason is not None:
        yield RecordFault(end, rest.reason)


class _Cursor:
    """A cursor that reads one value after the other from data[at:stop]."""

    def __init__(self, data: bytes, position: int, stop: int) -> None:
        self.data, self.position, self.stop = data, position, stop

    def take(self, size: int) -> bytes:
        if not 0 <= size <= self.stop - self.position:
            raise _Malformed(f"{size} bytes wanted, {self.stop - self.position} left")
        self.position += size
        return self.data[self.position - size : self.position]

    def integer(self, size: int) -> int:
        return int.from_bytes(self.take(size), signed=True)

    def sized(self, size: int) -> bytes | None:
        if size < -1:
            raise _Malformed(f"length {size}")
        return None if size == -1 else self.take(size)

    def varint(self, bits: int = 32) -> int:
        value = shift = 0
        while shift < bits:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                if value >> bits:
                    break
                return value >> 1 ^ -(value & 1)
        raise _Malformed("varint is too long")

    def require_end(self, what: str) -> None:
        if self.position != self.stop:
            raise _Malformed(f"{self.stop - self.position} bytes left at the end of a {what}")


def _read_batch(data: bytes, frame: BatchFrame, room: _Room) -> Iterator[Record]:
    header = read_header(data, frame.start)
    batch = RecordBatch(
        position=frame.start,
        magic=frame.magic,
        codec=header.codec,
        base_offset=header.base_offset,
        log_append_time=header.log_append_time,
        checksum_holds=_checksum(data, frame),
        transactional=header.transactional,
        control=header.control,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
    )
    plain = room.decompress(batch.codec, data[frame.start + HEADER_BYTES : frame.stop])
    if header.record_count < 0:
        raise _Malformed(f"{header.record_count} records")
    cursor = _Cursor(plain, 0, len(plain))
    for _ in range(header.record_count):
        yield _read_record(cursor, batch, header.base_timestamp, header.max_timestamp)
    cursor.require_end("batch")


def _read_record(outer: _Cursor, batch: RecordBatch, base_time: int, max_time: int) -> Record:
    size = outer.varint()
    outer.take(size)
    record = _Cursor(outer.data, outer.position - size, outer.position)
    record.take(1)  # attributes, unused
    timestamp = base_time + record.varint(64)
    offset = batch.base_offset + record.varint()
    key, value = record.sized(record.varint()), record.sized(record.varint())
    headers = tuple(_read_header(record) for _ in range(_header_count(record)))
    record.require_end("record")
    return Record(
        batch=batch,
        offset=offset,
        timestamp_ms=max_time if batch.log_append_time else timestamp,
        key=key,
        value=value,
        headers=headers,
        control=_control_type(key) if batch.control else None,
    )


def _header_count(record: _Cursor) -> int:
    count = record.varint()
    if not 0 <= count <= (record.stop - record.position) // 2:
        raise _Malformed(f"{count} headers")
    return count


def _read_header(record: _Cursor) -> RecordHeader:
    return RecordHeader(record.take(record.varint()), record.sized(record.varint()))


def _control_type(key: bytes | None) -> int:
    if key is None or len(key) < 4:
        raise _Malformed("a control record without a type")
    return int.from_bytes(key[2:4], signed=True)


class _Message(NamedTuple):
    """A message of magic 0 or 1 as it stands there."""

    offset: int
    attributes: int
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None


def _message(data: bytes, frame: BatchFrame) -> _Message:
    cursor = _Cursor(data, frame.start, frame.stop)
    offset = cursor.integer(8)
    cursor.take(4 + 4 + 1)  # size, checksum, magic
    attributes = cursor.integer(1)
    timestamp = cursor.integer(8) if frame.magic == 1 else None
    key, value = cursor.sized(cursor.integer(4)), cursor.sized(cursor.integer(4))
    cursor.require_end("message")
    return _Message(offset, attributes, timestamp, key, value)


def _read_message(data: bytes, frame: BatchFrame, room: _Room) -> Iterator[Record]:
    outer = _message(data, frame)
    batch = _message_batch(data, frame, outer)
    if not batch.codec:
        yield Record(batch, outer.offset, outer.timestamp_ms, outer.key, outer.value)
        return
    plain = room.decompress(batch.codec, _wrapped(outer))
    inside = [_message(plain, inner) for inner in _inner_frames(plain)]
    shift = outer.offset - inside[-1].offset if inside and outer.offset and frame.magic == 1 else 0
    if inside:
        batch = replace(batch, base_offset=inside[0].offset + shift)  # the wrapper has the offset of the last
    for message in inside:
        if message.attributes & CODEC_BITS:
            raise _Malformed("a compressed message inside a compressed message")
        timestamp = outer.timestamp_ms if batch.log_append_time else message.timestamp_ms
        yield Record(batch, message.offset + shift, timestamp, message.key, message.value)


def _message_batch(data: bytes, frame: BatchFrame, message: _Message) -> RecordBatch:
    return RecordBatch(
        position=frame.start,
        magic=frame.magic,
        codec=message.attributes & CODEC_BITS,
        base_offset=message.offset,
        log_append_time=frame.magic == 1 and bool(message.attributes & LOG_APPEND_TIME),
        checksum_holds=_checksum(data, frame),
    )


def _wrapped(message: _Message) -> bytes:
    if message.value is None:
        raise _Malformed("a compressed message without a value")
    return message.value


def _inner_frames(plain: bytes) -> list[BatchFrame]:
    frames, reached = [], 0
    for frame in _frames(plain):
        if isinstance(frame, RecordFault):
            raise _Malformed(f"{frame.reason}, at byte {frame.position} when decompressed")
        if frame.magic == 2:
            raise _Malformed("a record batch inside a compressed message")
        frames.append(frame)
        reached = frame.stop
    if reached != len(plain):
        raise _Malformed(f"ends early at byte {reached} when decompressed")
    return frames


def _count(data: bytes, frame: BatchFrame, room: _Room) -> int:
    if frame.magic == 2:
        return read_header(data, frame.start).record_count
    message = _message(data, frame)
    codec = message.attributes & CODEC_BITS
    if not codec:
        return 1
    inside = summary_of(room.decompress(codec, _wrapped(message)))
    if inside["fault"] or inside["cut"] or inside["wrappers"] or inside["magic"] == 2:
        raise _Malformed("not a whole message set when decompressed")
    return inside["records"]


def _checksum(data: bytes, frame: BatchFrame) -> bool | None:
    return checksum_holds(data, frame.start, frame.stop)


READERS: dict[int, Callable[[bytes, BatchFrame, _Room], Iterator[Record]]] = {
    0: _read_message,
    1: _read_message,
    2: _read_batch,
}
