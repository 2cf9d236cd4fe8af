"""What happens to the records of a Produce request: never to the records themselves, nearly always to what stands around them.

- A batch of magic 2 gets another producer, epoch, sequence and time in its header; the checksum is patched from the header alone, so
  a megabyte costs no more than a hundred bytes and a checksum that was wrong stays wrong.
- A message set of magic 0 or 1 becomes one batch of magic 2 with the same codec: brokers since 4.0 take nothing else.
- A field with several batches is cut at their borders, since a request may hold one for each partition.
"""

import struct
import zlib
from collections.abc import Collection
from typing import NamedTuple

import lz4.frame
import numpy as np
import snappy
import zstandard

from kdissect.protocol.records.crc32c import crc32c
from kdissect.protocol.records.crc32c_patch import patched_crc32c
from kdissect.protocol.records.record_codec import (
    Record,
    RecordFault,
    read_records,
)
from kdissect.protocol.records.summary import (
    BATCH_HEADER,
    CODEC_BITS,
    CONTROL,
    LOG_APPEND_TIME,
    PREFIX,
    TRANSACTIONAL,
)
from kdissect.replay.disposition import Disposition, SkipRequest

HEADER = struct.Struct(">qiibIhiqqqhii")
# What a header's checksum covers: attributes to number of records.
COVERED_HEAD = struct.Struct(">h4sqqqhi4s")
CRC, COVERED = 17, 21
SEQUENCE_LIMIT = 1 << 31  # after the largest int32 comes 0
NO_TIMESTAMP = -1


class Batch(NamedTuple):
    """One record batch of magic 2 and what its header says."""

    data: bytes
    attributes: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records: int

    @property
    def transactional(self) -> bool:
        """Whether it belongs to a transaction."""
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def size(self) -> int:
        """How many bytes it has, by its own account."""
        return PREFIX + int.from_bytes(self.data[8:PREFIX], "big")

    @property
    def content(self) -> bytes:
        """What a retry has in common with its first attempt: the records, as they were sent."""
        return self.data[BATCH_HEADER:]


def batch_of(data: bytes) -> Batch:
    """Read the header of one whole batch of magic 2."""
    (
        _offset,
        _length,
        _epoch,
        _magic,
        _crc,
        attributes,
        _delta,
        base,
        latest,
        pid,
        epoch,
        sequence,
        count,
    ) = HEADER.unpack_from(data)
    return Batch(data, attributes, base, latest, pid, epoch, sequence, count)


def batches_of(data: bytes) -> list[Batch]:
    """Give the batches of a records field. Raises SkipRequest for bytes that are no records."""
    found: list[Batch] = []
    at, old = 0, False
    while at < len(data):
        length = int.from_bytes(data[at + 8 : at + PREFIX], "big", signed=True)
        if len(data) - at < PREFIX + 5 or length < 14 or at + PREFIX + length > len(data):
            raise SkipRequest(Disposition.UNDECODABLE, f"no whole batch at byte {at} of the records")
        magic = data[at + 16]
        if magic < 2:
            old = True
            break
        if magic > 2 or length < BATCH_HEADER - PREFIX:
            raise SkipRequest(Disposition.UNDECODABLE, f"a batch of magic {magic} and length {length}")
        found.append(batch_of(data[at : at + PREFIX + length]))
        at += PREFIX + length
    if old:
        found.append(modern(data[at:]))
    return found


def modern(data: bytes) -> Batch:
    """Turn a message set of magic 0 or 1 into one batch of magic 2 with the same codec and the same records."""
    records: list[Record] = []
    for each in read_records(data):
        if isinstance(each, RecordFault):
            raise SkipRequest(Disposition.UNDECODABLE, f"a message set that cannot be read: {each.reason}")
        records.append(each)
    if not records:
        raise SkipRequest(Disposition.UNDECODABLE, "an empty message set")
    return _batch(records)


def without(batch: Batch, gone: Collection[int]) -> Batch | None:
    """Leave out records by their numbers; None if none is left. For batches without producer id: others cannot be changed."""
    records = [each for number, each in enumerate(read_records(batch.data)) if number not in gone]
    kept = [each for each in records if isinstance(each, Record)]
    if len(kept) < len(records):
        return batch
    return _batch(kept) if kept else None


def _batch(records: list[Record]) -> Batch:
    codec = records[0].batch.codec
    times = [NO_TIMESTAMP if each.timestamp_ms is None else each.timestamp_ms for each in records]
    body = COMPRESSORS[codec](b"".join(_record(each, number, times) for number, each in enumerate(records)))
    return batch_of(_sealed(codec, len(records), times[0], max(times), body))


def _sealed(codec: int, count: int, base: int, latest: int, body: bytes) -> bytes:
    length = BATCH_HEADER - PREFIX + len(body)
    head = HEADER.pack(0, length, -1, 2, 0, codec, count - 1, base, latest, -1, -1, -1, count)
    whole = bytearray(head + body)
    checksum = int(crc32c(np.frombuffer(bytes(whole), np.uint8), COVERED, len(whole)))
    whole[CRC:COVERED] = checksum.to_bytes(4, "big")
    return bytes(whole)


def _record(record: Record, number: int, times: list[int]) -> bytes:
    """Write a record of magic 2: attributes, time and offset deltas, key, value, headers."""
    inside = b"".join(
        (
            b"\0",
            _varint(times[number] - times[0]),
            _varint(number),
            _sized(record.key),
            _sized(record.value),
            _varint(len(record.headers)),
            *(_sized(part) for header in record.headers for part in header),
        )
    )
    return _varint(len(inside)) + inside


def _sized(data: bytes | None) -> bytes:
    return _varint(-1) if data is None else _varint(len(data)) + data


def _varint(value: int) -> bytes:
    """Write a signed varint, zigzag."""
    value = value << 1 ^ value >> 63
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _gzip(data: bytes) -> bytes:
    stream = zlib.compressobj(wbits=31)
    return stream.compress(data) + stream.flush()


def _snappy(data: bytes) -> bytes:
    block = bytes(snappy.compress(data))
    return b"\x82SNAPPY\x00" + struct.pack(">iii", 1, 1, len(block)) + block


COMPRESSORS = {0: bytes, 1: _gzip, 2: _snappy, 3: lz4.frame.compress, 4: zstandard.compress}


def rewritten(
    batch: Batch,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    shift_ms: int = 0,
) -> bytes:
    """Give the batch with another producer and sequence, later by `shift_ms`, as a client sends it.

    The checksum is patched. Raise SkipRequest for a control batch, which only brokers write.
    """
    head = rewritten_head(batch, producer_id, producer_epoch, base_sequence, shift_ms)
    return b"".join((head, memoryview(batch.data)[BATCH_HEADER:]))


def refuse_control(batch: Batch) -> None:
    """Raise SkipRequest for a control batch, which only brokers write."""
    if batch.attributes & CONTROL:
        raise SkipRequest(Disposition.POLICY, "a control batch is written by brokers only")


def rewritten_head(
    batch: Batch,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    shift_ms: int = 0,
) -> bytes:
    """Give the header alone of what `rewritten` gives; the batch needs no more than its header either."""
    refuse_control(batch)
    data = batch.data
    base, latest = batch.base_timestamp, batch.max_timestamp
    if shift_ms and base >= 0:
        base, latest = base + shift_ms, latest + shift_ms
    before = data[COVERED:BATCH_HEADER]
    after = COVERED_HEAD.pack(
        batch.attributes & ~LOG_APPEND_TIME,
        before[2:6],
        base,
        latest,
        producer_id,
        producer_epoch,
        base_sequence,
        before[36:],
    )
    checksum = data[CRC:COVERED]
    if before != after:
        old = int.from_bytes(checksum, "big")
        checksum = patched_crc32c(old, before, after, batch.size - BATCH_HEADER).to_bytes(4, "big")
    # A client does not know the offset, nor the leader's epoch.
    return b"".join((bytes(8), data[8:PREFIX], b"\xff\xff\xff\xff", data[16:CRC], checksum, after))


def codec_of(batch: Batch) -> int:
    """Give the number of the batch's codec."""
    return batch.attributes & CODEC_BITS
