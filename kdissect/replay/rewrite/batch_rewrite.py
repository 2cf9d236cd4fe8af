"""Rewriting of the batches of a Produce request: records stay, what is around them changes.

- A batch of magic 2 gets another producer, epoch, sequence and time in its header. The checksum is patched
  from the header alone, so a megabyte costs no more than a hundred bytes, and a checksum that was wrong stays
  wrong.
- A message set of magic 0 or 1 becomes one batch of magic 2 with the same codec: brokers since 4.0 accept
  nothing else.
- A field with several batches is cut at their borders, since a request may hold one for each partition.
"""

import struct
from collections.abc import Collection
from typing import NamedTuple

from kdissect.protocol.records.batches import (
    ATTRIBUTES_AT,
    BASE_TIMESTAMP_AT,
    CODEC_BITS,
    CONTROL,
    CRC_AT,
    HEADER_BYTES,
    LENGTH_AT,
    LOG_APPEND_TIME,
    MAGIC_AT,
    PREFIX_BYTES,
    PRODUCER_ID_AT,
    RECORD_COUNT_AT,
    TRANSACTIONAL,
    read_header,
    rest_of_field,
    whole_batches,
)
from kdissect.protocol.records.crc32c import patched_crc32c
from kdissect.protocol.records.record_decoder import Record, RecordFault, read_records
from kdissect.protocol.records.record_encoder import encode_batch
from kdissect.replay.disposition import Disposition, SkipRequest

TIMES, PRODUCER = struct.Struct(">qq"), struct.Struct(">qhi")  # fields of a header
TIMES_AT, PRODUCER_AT = BASE_TIMESTAMP_AT - ATTRIBUTES_AT, PRODUCER_ID_AT - ATTRIBUTES_AT
BEHIND_AT = RECORD_COUNT_AT - ATTRIBUTES_AT
NO_OFFSET, NO_EPOCH = bytes(8), b"\xff\xff\xff\xff"
SEQUENCE_LIMIT = 1 << 31  # after the largest int32 comes 0


class CapturedBatch(NamedTuple):
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
        """Return whether it belongs to a transaction."""
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def size(self) -> int:
        """Its number of bytes, by its own account."""
        return PREFIX_BYTES + int.from_bytes(self.data[LENGTH_AT:PREFIX_BYTES], "big")

    @property
    def content(self) -> bytes:
        """Return what a retry has in common with its first attempt: the records, as they were sent."""
        return self.data[HEADER_BYTES:]


def batch_of(data: bytes) -> CapturedBatch:
    """Return one whole batch of magic 2 with what its header says."""
    head = read_header(data)
    return CapturedBatch(
        data,
        head.attributes,
        head.base_timestamp,
        head.max_timestamp,
        head.producer_id,
        head.producer_epoch,
        head.base_sequence,
        head.record_count,
    )


def batches_of(data: bytes) -> list[CapturedBatch]:
    """Return the batches of a records field. Raise SkipRequest for bytes that are no records."""
    found: list[CapturedBatch] = []
    end = 0
    for start, stop, magic in whole_batches(data):
        if magic < 2:
            return [*found, modern(data[start:])]
        found.append(batch_of(data[start:stop]))
        end = stop
    rest = rest_of_field(data, end)
    if rest is not None:
        reason = f"no whole batch at byte {end} of the records"
        if not rest.is_cut:
            reason = f"a batch of magic {rest.magic} and length {rest.length}"
        raise SkipRequest(Disposition.UNDECODABLE, reason)
    return found


def modern(data: bytes) -> CapturedBatch:
    """Return a message set of magic 0 or 1 as one batch of magic 2 with the same codec and the same records.

    Raise SkipRequest if it cannot be read.
    """
    records: list[Record] = []
    for each in read_records(data):
        if isinstance(each, RecordFault):
            raise SkipRequest(Disposition.UNDECODABLE, f"a message set that cannot be read: {each.reason}")
        records.append(each)
    if not records:
        raise SkipRequest(Disposition.UNDECODABLE, "an empty message set")
    return batch_of(encode_batch(records))


def without(batch: CapturedBatch, gone: Collection[int]) -> CapturedBatch | None:
    """Return a batch without the records of these numbers; None if none is left.

    For batches without a producer id: others cannot be changed. A batch that cannot be read stays as it is.
    """
    records = [each for number, each in enumerate(read_records(batch.data)) if number not in gone]
    kept = [each for each in records if isinstance(each, Record)]
    if len(kept) < len(records):
        return batch
    return batch_of(encode_batch(kept)) if kept else None


def rewritten(
    batch: CapturedBatch,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    shift_ms: int = 0,
) -> bytes:
    """Return the batch with another producer and sequence, later by `shift_ms`, as a client sends it.

    The checksum is patched. Raise SkipRequest for a control batch, which only brokers write.
    """
    head = rewritten_head(batch, producer_id, producer_epoch, base_sequence, shift_ms)
    return b"".join((head, memoryview(batch.data)[HEADER_BYTES:]))


def refuse_control(batch: CapturedBatch) -> None:
    """Raise SkipRequest for a control batch, which only brokers write."""
    if batch.attributes & CONTROL:
        raise SkipRequest(Disposition.POLICY, "a control batch is written by brokers only")


def rewritten_head(
    batch: CapturedBatch,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    shift_ms: int = 0,
) -> bytes:
    """Return only the header of what `rewritten` returns; the batch needs no more than its header either."""
    refuse_control(batch)
    base, latest, times = batch.base_timestamp, batch.max_timestamp, b""
    if shift_ms and base >= 0:
        try:
            times = TIMES.pack(base + shift_ms, latest + shift_ms)
        except struct.error as wrong:
            raise _misfit(wrong) from wrong
    return head_with(batch.data, producer_id, producer_epoch, base_sequence, times)


def head_with(
    data: bytes, producer_id: int, producer_epoch: int, base_sequence: int, times: bytes = b""
) -> bytes:
    """Return the header with which `data` begins with another producer and sequence, and with these times.

    The checksum is patched. Without times they stay. Raise SkipRequest for numbers that do not fit.
    """
    before = data[ATTRIBUTES_AT:HEADER_BYTES]
    try:
        producer = PRODUCER.pack(producer_id, producer_epoch, base_sequence)
    except struct.error as wrong:
        raise _misfit(wrong) from wrong
    after = b"".join((before[:TIMES_AT], times or before[TIMES_AT:PRODUCER_AT], producer, before[BEHIND_AT:]))
    if before[1] & LOG_APPEND_TIME:
        after = b"".join((before[:1], bytes((before[1] & ~LOG_APPEND_TIME,)), after[2:]))
    checksum = data[CRC_AT:ATTRIBUTES_AT]
    if before != after:
        behind = PREFIX_BYTES + int.from_bytes(data[LENGTH_AT:PREFIX_BYTES], "big") - HEADER_BYTES
        old = int.from_bytes(checksum, "big")
        checksum = patched_crc32c(old, before, after, behind).to_bytes(4, "big")
    # A client does not know the offset, nor the leader's epoch.
    return b"".join(
        (NO_OFFSET, data[LENGTH_AT:PREFIX_BYTES], NO_EPOCH, data[MAGIC_AT:CRC_AT], checksum, after)
    )


def _misfit(wrong: struct.error) -> SkipRequest:
    reason = f"new values do not fit into the header of a batch: {wrong}"
    return SkipRequest(Disposition.UNDECODABLE, reason)


def codec_of(batch: CapturedBatch) -> int:
    """Return the number of the batch's codec."""
    return batch.attributes & CODEC_BITS
