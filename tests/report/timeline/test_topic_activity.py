"""Counts of exchanges by step of time and topic, against the rows."""

from collections import defaultdict
from typing import Any

from kdissect.report.timeline.timeline_tables import (
    TOPIC_ACTIVITY,
)


def test_topic_moments(counted):
    tables, partial, rows = counted
    exchange = {(row["connection"], row["ordinal"]): row for row in rows if row["ordinal"] is not None}
    expected: defaultdict[tuple[Any, ...], list[Any]] = defaultdict(lambda: [set(), 0, 0, 0])
    for row in tables["partitions"].to_pylist():
        sender = exchange[row["connection"], row["ordinal"]]
        sums = expected[sender["step"], row["api_key"], row["topic"], row["topic_id"], sender["client_id"]]
        sums[0].add((row["connection"], row["ordinal"]))
        for at, amount in enumerate(
            (row["records"] or 0, row["record_bytes"] or 0, (row["error_code"] or 0) != 0), 1
        ):
            sums[at] += amount
    found = defaultdict(lambda: [0, 0, 0, 0])
    for row in partial.table(TOPIC_ACTIVITY).to_pylist():
        sums = found[row["step"], row["api_key"], row["topic"], row["topic_id"], row["client_id"]]
        for at, name in enumerate(("exchanges", "records", "record_bytes", "errors")):
            sums[at] += row[name]
    assert found == {key: [len(sums[0]), *sums[1:]] for key, sums in expected.items()}
