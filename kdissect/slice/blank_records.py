"""Records without what producers wrote, in as many bytes: keys replaced, values and headers zeros.

In come the bytes of a records field, out go as many bytes with the same batches and the same numbers of
records, offsets, times and producers, and with right checksums.

- Keys become digits that are equal for equal keys. Values, names and values of headers become zeros.
- A compressed batch is decompressed, blanked and compressed by the same codec. It has become shorter, and
  padding that every decompressor skips fills it up: a comment in the header of a gzip member (RFC 1952),
  skippable frames of lz4 and zstd (RFC 8878, section 3.1.2), empty blocks in snappy's framing for Java.
  More and more digits instead of zeros are tried where the padding does not fit. If digits of keys do not
  fit, keys become a few digits, or zeros.
- A batch that cannot be read, or that does not fit, keeps its header, and the rest becomes BLANK bytes.
- The type of a control record stays, and its value if it is that of a transaction's end. Brokers write both.
- The bytes behind the last whole batch become BLANK, apart from the header of a batch that is cut.
"""

import struct
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import lz4.frame
import snappy
import zstandard

from kdissect.protocol.records.batches import (
    ATTRIBUTES_AT,
    CODEC_BITS,
    CRC_AT,
    FIRST_KEY,
    HEADER_BYTES,
    PREFIX_BYTES,
    BatchFrame,
    read_header,
    whole_batches,
)
from kdissect.protocol.records.compression import XERIAL_MAGIC, Damage, decompress
from kdissect.protocol.records.crc32c import crc32c
from kdissect.slice.same_length_names import SameLengthPseudonyms

BLANK = b"\xff"


class Fill(NamedTuple):
    """How many digits stand instead of zeros: in each key (None: all of it), and in each value."""

    key: int | None = None
    value: int = 0


DIGITS = (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64)
FILLS = tuple(Fill(key, value) for key in (None, 4, 0) for value in DIGITS)
"""Choices that are tried until a batch fits."""

TRANSACTION_END = (0, 1)  # types of control records: abort, commit
CONTROL_KEY, CONTROL_VALUE = 4, 6  # bytes that brokers write
SKIPPABLE = 0x184D2A50  # magic of a frame that lz4 and zstd skip
SKIPPABLE_HEAD = 8


class RecordBlanker:
    """Blanks records; `opaque` counts batches that were not compressed again."""

    def __init__(self, pseudonyms: SameLengthPseudonyms) -> None:
        self._pseudonyms = pseudonyms
        self.opaque = 0

    def blank(self, data: bytes) -> bytes:
        """Return as many bytes without what producers wrote."""
        out = bytearray(BLANK * len(data))
        end = 0
        for frame in whole_batches(data):
            blank = self._batch if frame.magic == 2 else self._message
            out[frame.start : frame.stop] = blank(data, frame)
            end = frame.stop
        head = data[end : end + HEADER_BYTES]
        out[end : end + len(head)] = head if _is_batch_head(head) else BLANK * len(head)
        return bytes(out)

    def _batch(self, data: bytes, frame: BatchFrame) -> bytes:
        header = read_header(data, frame.start)
        body = data[frame.start + HEADER_BYTES : frame.stop]
        count, control = header.record_count, header.control
        new = self._body(header.codec, body, lambda plain, fill: self._records(plain, count, control, fill))
        batch = bytearray(data[frame.start : frame.start + HEADER_BYTES] + new)
        struct.pack_into(">I", batch, CRC_AT, crc32c(bytes(batch[ATTRIBUTES_AT:])))
        return bytes(batch)

    def _body(self, codec: int, body: bytes, blanked: Callable[[bytes, Fill], bytes]) -> bytes:
        """Return the blanked body of a batch, as long as it was."""
        plain = decompress(codec, body)
        if not isinstance(plain, Damage):
            try:
                if not codec:
                    return blanked(plain, FILLS[0])
                for fill in FILLS:
                    packed = PACKERS[codec](blanked(plain, fill), len(body))
                    if packed is not None:
                        return packed
            except (IndexError, ValueError):
                pass  # no records, whatever the header says
        self.opaque += 1
        return BLANK * len(body)

    def _records(self, plain: bytes, count: int, control: bool, fill: Fill) -> bytes:
        """Return the records of a batch blanked. Raise IndexError or ValueError if they are none."""
        out, position = bytearray(plain), 0
        for _ in range(count):
            size, position = _varint(plain, position)
            stop = position + size
            position += 1
            for _delta in range(2):
                _, position = _varint(plain, position)
            key, position = _span(plain, position, stop)
            value, position = _span(plain, position, stop)
            headers, position = _varint(plain, position)
            spans = []
            for _part in range(2 * headers):
                span, position = _span(plain, position, stop)
                spans.append(span)
            if position != stop or headers < 0:
                raise ValueError("no record")
            ends = control and _is_transaction_end(plain[key], plain[value])
            if not ends:
                is_type = control and len(plain[key]) == CONTROL_KEY
                out[key] = plain[key] if is_type else self._digits(plain[key], fill.key)
                out[value] = self._digits(plain[value], fill.value)
            for span in spans:
                out[span] = bytes(len(plain[span]))
        if position != len(plain):
            raise ValueError("bytes behind the records")
        return bytes(out)

    def _digits(self, data: bytes, count: int | None) -> bytes:
        """Return some digits that stand for bytes, or only digits, and zeros behind them."""
        size = len(data) if count is None else min(count, len(data))
        digits = self._pseudonyms.key_bytes(data, size) if size else b""
        return digits.ljust(len(data), b"\0")

    def _message(self, data: bytes, frame: BatchFrame, inner: bool = False, fill: Fill = FILLS[0]) -> bytes:
        """Return a blanked message of magic 0 or 1; one that wraps others is packed again."""
        message = bytearray(data[frame.start : frame.stop])
        key_at = FIRST_KEY + 8 * frame.magic
        size = max(0, int.from_bytes(message[key_at : key_at + 4], signed=True))
        value_at = key_at + 4 + size
        key, value = bytes(message[key_at + 4 : value_at]), bytes(message[value_at + 4 :])
        codec = message[PREFIX_BYTES + 5] & CODEC_BITS
        if value_at + 4 > len(message) or (codec and inner):
            message[key_at:] = BLANK * (len(message) - key_at)
        else:
            message[key_at + 4 : value_at] = self._digits(key, fill.key)
            message[value_at + 4 :] = (
                self._body(codec, value, self._set) if codec else self._digits(value, fill.value)
            )
        struct.pack_into(">I", message, PREFIX_BYTES, zlib.crc32(message[PREFIX_BYTES + 4 :]))
        return bytes(message)

    def _set(self, plain: bytes, fill: Fill) -> bytes:
        parts = [self._message(plain, frame, True, fill) for frame in whole_batches(plain)]
        if sum(map(len, parts)) != len(plain):
            raise ValueError("no message set")
        return b"".join(parts)


def _is_batch_head(head: bytes) -> bool:
    return len(head) == HEADER_BYTES and head[16] == 2


def _is_transaction_end(key: bytes, value: bytes) -> bool:
    is_end = len(key) == CONTROL_KEY and int.from_bytes(key[2:]) in TRANSACTION_END
    return is_end and len(value) == CONTROL_VALUE


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """Return a zigzag varint and the position behind it."""
    value = shift = 0
    while shift < 70:
        byte = data[position]
        value |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            return value >> 1 ^ -(value & 1), position
    raise ValueError("a varint is too long")


def _span(data: bytes, position: int, stop: int) -> tuple[slice, int]:
    size, position = _varint(data, position)
    end = position + max(0, size)
    if size < -1 or end > stop:
        raise ValueError("beyond the record")
    return slice(position, end), end


# A packer returns exactly `size` bytes that become `plain`, or None if it cannot.


def _gzip(plain: bytes, size: int) -> bytes | None:
    stream = zlib.compressobj(9, wbits=-15)
    body = stream.compress(plain) + stream.flush()
    trailer = struct.pack("<II", zlib.crc32(plain), len(plain) & 0xFFFFFFFF)
    gap = size - len(body) - len(trailer) - 10
    if gap < 0:
        return None
    flags, comment = (0x10, b" " * (gap - 1) + b"\0") if gap else (0, b"")
    return b"\x1f\x8b\x08" + bytes([flags]) + bytes(5) + b"\xff" + comment + body + trailer


def _snappy(plain: bytes, size: int) -> bytes | None:
    block = bytes(snappy.compress(plain))
    packed = XERIAL_MAGIC + struct.pack(">iii", 1, 1, len(block)) + block
    gap = size - len(packed)
    if gap and not gap >= 5:
        return bytes(block) if len(block) == size else None
    while gap:
        # An empty block: a size of 0 in one byte, or in as many more as a varint may have.
        take = gap if gap <= 9 else 5
        packed += struct.pack(">i", take - 4) + b"\x80" * (take - 5) + b"\0"
        gap -= take
    return packed


def _skippable(packed: bytes, size: int) -> bytes | None:
    gap = size - len(packed)
    if not gap:
        return packed
    if gap < SKIPPABLE_HEAD:
        return None
    return packed + struct.pack("<II", SKIPPABLE, gap - SKIPPABLE_HEAD) + bytes(gap - SKIPPABLE_HEAD)


def _lz4(plain: bytes, size: int) -> bytes | None:
    packed: Any = lz4.frame.compress(plain, store_size=False)
    return _skippable(packed, size)


def _zstd(plain: bytes, size: int) -> bytes | None:
    packed = zstandard.ZstdCompressor(level=19, write_content_size=len(plain) < 256).compress(plain)
    return _skippable(packed, size)


PACKERS: dict[int, Callable[[bytes, int], bytes | None]] = {1: _gzip, 2: _snappy, 3: _lz4, 4: _zstd}
