"""The last offset of each step of time."""

import pyarrow as pa

from kdissect.report.aggregate.grouping import TableColumns
from kdissect.report.partials import (
    summarise,
)
from kdissect.report.timeline.grid import (
    Grid,
)
from kdissect.report.timeline.timeline_tables import (
    POSITIONS,
)
from kdissect.tables.schemas import EXCHANGES, PARTITIONS
from tests.helpers import synthetic_tables as synthetic

SECONDS = Grid(synthetic.START_NS, 5_000_000, 100)


def test_positions_are_the_last_of_each_step():
    times = [1, 2, 3, 8]
    offsets = [10, 11, 5, 12]
    exchanges = EXCHANGES.empty_table()
    rows = [
        {
            "connection": 1,
            "ordinal": at,
            "api_key": 8,
            "status": "answered",
            "group_id": "g",
            "client_id": "c",
            "idle_wait": False,
            "request_first_ns": SECONDS.start_ns + ms * 1_000_000,
            "response_first_ns": SECONDS.start_ns + ms * 1_000_000 + 1,
        }
        for at, ms in enumerate(times)
    ]
    exchanges = pa.Table.from_pylist(rows, exchanges.schema)
    partitions = pa.Table.from_pylist(
        [
            {
                "connection": 1,
                "ordinal": at,
                "api_key": 8,
                "topic": "t",
                "partition": 0,
                "offset": offset,
                "error_code": 25 if at == 3 else 0,
            }
            for at, offset in enumerate(offsets)
        ],
        PARTITIONS,
    )
    partial = summarise({"exchanges": exchanges, "partitions": partitions}, SECONDS)
    found = TableColumns(partial.table(POSITIONS)).table.to_pylist()
    # Four commits: three in the first step of 5 ms, of which the last counts, and one that was refused.
    assert [(row["step"], row["kind"], row["group_id"], row["offset"]) for row in found] == [
        (0, "committed", "g", 5)
    ]
