"""Write records as one batch of magic 2: the counterpart of `record_decoder`.

In come `Record`s of any magic, out comes a batch as a client sends it (KIP-98), with its checksum. Each codec
is written in the framing that brokers and all clients read: gzip members, xerial blocks of snappy, frames of
lz4 and zstd.
"""

import struct
import zlib
from collections.abc import Sequence

import lz4.frame
import snappy
import zstandard

from kdissect.protocol.records.batches import ATTRIBUTES_AT, HEADER, HEADER_BYTES, PREFIX_BYTES, BatchHeader
from kdissect.protocol.records.crc32c import crc32c
from kdissect.protocol.records.record_decoder import Record

NO_TIMESTAMP = -1


def encode_batch(records: Sequence[Record]) -> bytes:
    """Return one batch of magic 2 with these records, at least one, compressed as the first one was.

    Offsets count from 0. The batch has no producer, and its times are those of the records.
    """
    codec = records[0].batch.codec
    times = [NO_TIMESTAMP if record.timestamp_ms is None else record.timestamp_ms for record in records]
    body = COMPRESSORS[codec](
        b"".join(_record(record, number, times) for number, record in enumerate(records))
    )
    return _sealed(codec, len(records), times[0], max(times), body)


def _sealed(codec: int, count: int, base: int, latest: int, body: bytes) -> bytes:
    header = BatchHeader(
        base_offset=0,
        batch_length=HEADER_BYTES - PREFIX_BYTES + len(body),
        partition_leader_epoch=-1,
        magic=2,
        crc=0,
        attributes=codec,
        last_offset_delta=count - 1,
        base_timestamp=base,
        max_timestamp=latest,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=count,
    )
    batch = HEADER.pack(*header) + body
    checksum = crc32c(batch[ATTRIBUTES_AT:])
    return HEADER.pack(*header._replace(crc=checksum)) + body


def _record(record: Record, number: int, times: list[int]) -> bytes:
    """Return a record of magic 2: attributes, time and offset deltas, key, value, headers."""
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
    """Return a signed varint, zigzag."""
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
