"""Definition of a column of the public tables, and the words that many of them share.

A column says what it means, its unit, what null means, whether it holds names, and from which value of a
message it is filled, if it is filled from one. The columns themselves are in `tables.schemas`.
"""

from typing import NamedTuple

import pyarrow as pa

BOOL, INT16, INT32, INT64, TEXT = pa.bool_(), pa.int16(), pa.int32(), pa.int64(), pa.string()
NO_NAME, PAYLOAD = "", "payload"
BYTES, TIME, NS, MS = "bytes", "ns since the epoch, UTC", "ns", "ms"
NO_REQUEST = "the request was not captured"
NO_RESPONSE = "there is no response"
NO_FIELD = "the message has no such field"
NO_RECORDS = "the message carries no records for it"
BAD_BATCH = "its batch could not be read"
NO_PAYLOAD = "it is null or too large, its batch could not be read, or names are replaced"
NO_SASL = "no SASL was seen"
NO_TLS = "no TLS"


class Source(NamedTuple):
    """Source of the values of a column: a column of `protocol.columnar.registers`.

    A row of `exchanges` has the value of the message on that side. A row of `partitions` has it of that side
    if it is there, else of the other unless `alone`; it is a number.
    """

    column: str
    side: str  # REQUEST_SIDE or RESPONSE_SIDE
    alone: bool = False


class Column(NamedTuple):
    """One column.

    `null` says what null means; None: the column is never null. `names` says, of a column of text, what kind
    of name `--anonymize` replaces: NO_NAME if Kafka, TLS or kdissect chose the text, PAYLOAD if a producer
    wrote it, which is then left out. A column with a source is filled from it; other columns are made by the
    module of their table.
    """

    name: str
    type: pa.DataType
    meaning: str
    unit: str = ""
    null: str | None = None
    names: str | None = None
    source: Source | None = None
