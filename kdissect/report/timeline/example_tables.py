"""The tables of example exchanges: single exchanges with their columns, few enough for a page.

- EXAMPLES_BY_LATENCY: the slowest of each API in each step of time.
- EXAMPLES_BY_ERROR: the first of each API, error and client in each step; UNANSWERED stands for no response.
- EXAMPLES_BY_CONNECTION: the earliest exchanges of the capture. Of a small capture that is all of them.

An exchange may be in several of them. Their columns are those of the table `exchanges`, and `partitions`: the
first few partitions as JSON, each a list of `PARTITION_FIELDS`.
"""

from kdissect.report.aggregate.partial_tables import PartialTable
from kdissect.report.timeline.timeline_tables import FIRST, ORDER
from kdissect.tables.column import BOOL, INT16, INT32, INT64, TEXT
from kdissect.tables.schemas import EXCHANGES

UNANSWERED = -(1 << 15)
"""Stands as error code of an exchange without a response."""

PARTITION_FIELDS = ("topic", "topic_id", "partition", "error_code", "offset", "records", "record_bytes")
MOST_PARTITIONS = 6

_LOCATED = {name for name, _ in FIRST}
KEPT = tuple(field for field in EXCHANGES if field.name not in _LOCATED)
"""The columns of the table `exchanges` that an example has beside its location."""

EXAMPLE = (*FIRST, *((field.name, field.type) for field in KEPT), ("partitions", TEXT))

EXAMPLES_BY_LATENCY = PartialTable(
    "examples_by_latency",
    keys=(("by_step", INT32), ("by_api", INT16), ("by_idle", BOOL)),
    sums=("examples",),
    order=ORDER,
    first=EXAMPLE,
    most=1200,
    spare=(("by_idle",), ("by_step",)),
)

EXAMPLES_BY_ERROR = PartialTable(
    "examples_by_error",
    keys=(("by_step", INT32), ("by_api", INT16), ("by_code", INT32), ("by_client", TEXT), ("by_host", TEXT)),
    sums=("examples",),
    order=ORDER,
    first=EXAMPLE,
    most=1200,
    spare=(("by_client", "by_host"), ("by_step",)),
)

EXAMPLES_BY_CONNECTION = PartialTable(
    "examples_by_connection",
    keys=(("by_time", INT64), ("by_connection", INT64), ("by_ordinal", INT64)),
    sums=("examples",),
    order=ORDER,
    first=EXAMPLE,
    most=3000,
    earliest="by_time",
)

EXAMPLE_TABLES = {
    part.name: part for part in (EXAMPLES_BY_LATENCY, EXAMPLES_BY_ERROR, EXAMPLES_BY_CONNECTION)
}
