"""Samples of uncompressed records, compressed with LZ4: what compression would save.

In come spans of records, out go the bytes tried and the bytes that LZ4, the quickest codec of Kafka, made of
them. The first exchanges of each connection are tried, and then one of many. Their ordinal decides, so the
choice does not depend on how the capture was split. For each partition that such a Produce request writes,
the records of the first batches are compressed, up to a bound, which costs about as much as reading them did.
Other codecs mostly save more than LZ4.
"""

import numpy as np
import pyarrow as pa

from kdissect.protocol.records.batches import HEADER_BYTES
from kdissect.streams.flow_state import Bytes, Int64s
from kdissect.tables.message_columns import Bools

ALL_OF_FIRST, ONE_OF = 16, 64
SAMPLE_BYTES = 16 << 10
_LZ4 = pa.Codec("lz4_raw")  # without a frame, whose few bytes do not matter here


def is_tried(ordinal: Int64s) -> Bools:
    """Return which exchanges are tried, by their ordinal on the connection."""
    tried: Bools = (ordinal < ALL_OF_FIRST) | (ordinal % ONE_OF == 0)
    return tried


def compressed(arena: Bytes, start: Int64s, stop: Int64s) -> tuple[Int64s, Int64s]:
    """Return for record sets arena[start:stop] how many bytes were tried, and how many LZ4 made of them.

    The header of the first batch is left out, since Kafka does not compress it. Both are 0 for a set that has
    nothing else.
    """
    tried, made = np.zeros(len(start), np.int64), np.zeros(len(start), np.int64)
    begin = start + HEADER_BYTES
    end = np.minimum(stop, begin + SAMPLE_BYTES)
    for row in np.flatnonzero(end > begin).tolist():
        sample = arena[begin[row] : end[row]]
        tried[row], made[row] = len(sample), _LZ4.compress(sample).size
    return tried, made
