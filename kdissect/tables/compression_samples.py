"""Would records that travel uncompressed compress? Some are tried, with LZ4, the quickest of Kafka's codecs.

Of each connection the first exchanges are tried, and then one of many: by ordinal, so what is tried does not depend on how
the capture was cut. Of each partition that such a Produce request writes, the records of the first batches are compressed, up
to a bound: that costs about what reading them did. What LZ4 saves the others save too, mostly more.
"""

import numpy as np
import pyarrow as pa

from kdissect.protocol.records.batches import HEADER_BYTES
from kdissect.streams.flow_state import Bytes, Int64s
from kdissect.tables.message_columns import Bools

ALL_OF_FIRST, ONE_OF = 16, 64
SAMPLE_BYTES = 16 << 10
_LZ4 = pa.Codec("lz4_raw")  # without the frame around, as the difference of some bytes is none here


def is_tried(ordinal: Int64s) -> Bools:
    """Say which exchanges of their connection are tried."""
    tried: Bools = (ordinal < ALL_OF_FIRST) | (ordinal % ONE_OF == 0)
    return tried


def compressed(arena: Bytes, start: Int64s, stop: Int64s) -> tuple[Int64s, Int64s]:
    """Give for record sets arena[start:stop] how many bytes were tried, and how many LZ4 made of them.

    The header of the first batch is left out: Kafka does not compress it. 0 and 0 where that is all there is.
    """
    tried, made = np.zeros(len(start), np.int64), np.zeros(len(start), np.int64)
    begin = start + HEADER_BYTES
    end = np.minimum(stop, begin + SAMPLE_BYTES)
    for row in np.flatnonzero(end > begin).tolist():
        sample = arena[begin[row] : end[row]]
        tried[row], made[row] = len(sample), _LZ4.compress(sample).size
    return tried, made
