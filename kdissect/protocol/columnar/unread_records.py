"""Records that stay unread: a walk wants the headers of batches, and nothing of most records.

The first READ_AHEAD bytes of a message are read. When the walk comes to a records field, the headers of its
batches are read, the SAMPLE_BYTES behind the first header of which samples are made, and READ_AHEAD bytes
behind the field. Messages of magic 0 and 1 are small, or are decompressed, so a field with any of them is all
read. If a walk wants more than that, its message is all read, and walked once more.
"""

from typing import Any

from kdissect.jit.decorators import jit_inline, jit_inner
from kdissect.jit.unread_bytes import read_bytes
from kdissect.protocol.integers import int8_at, int32_at
from kdissect.protocol.records.batches import FIRST_KEY, HEADER_BYTES, LENGTH_AT, MAGIC_AT, PREFIX_BYTES

READ_AHEAD = 16 << 10  # bytes
SAMPLE_BYTES = 16 << 10  # behind the first header of a records field, which samples are made of
AT_ONCE = 4 << 10  # bytes that are read for a header: small batches have several in them


@jit_inline
def read_ahead(unread: Any, room: Any, offset: int, stop: int) -> int:
    """Read the bytes behind an offset; return where those end that are there now."""
    there = min(offset + READ_AHEAD, stop)
    read_bytes(unread, room, offset, there)
    return there


@jit_inner
def read_records(unread: Any, room: Any, size: int, offset: int, there: int, stop: int) -> int:
    """Read what a walk wants of a records field of some size at an offset, and the bytes behind it.

    Return where the bytes end that the walk may look at, which is `there` for a field without an end.
    """
    if offset < 0 or size <= 0 or size > stop - offset:
        return there
    end = offset + size
    known = min(offset + HEADER_BYTES + SAMPLE_BYTES, end)
    read_bytes(unread, room, offset, known)
    while offset + FIRST_KEY <= end:
        header_end = min(offset + HEADER_BYTES, end)
        if header_end > known:
            known = min(offset + AT_ONCE, end)
            read_bytes(unread, room, offset, known)
        length = int32_at(room, offset + LENGTH_AT)
        if int8_at(room, offset + MAGIC_AT) != 2 or length < HEADER_BYTES - PREFIX_BYTES:
            read_bytes(unread, room, offset, end)
            break
        offset += PREFIX_BYTES + length
    return int(max(there, read_ahead(unread, room, end, stop)))
