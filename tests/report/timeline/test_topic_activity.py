"""Counts of exchanges by step of time and topic, against the rows."""

from collections import defaultdict

import numpy as np
import pytest

from kdissect.report.partials import (
    summarise,
)
from kdissect.report.timeline.grid import (
    Grid,
)
from kdissect.report.timeline.timeline_tables import (
    TOPIC_ACTIVITY,
)
from kdissect.tables.schemas import (
    ENDS,
)
from tests.helpers import synthetic_tables as synthetic

SECONDS = Grid(synthetic.START_NS, 5_000_000, 100)


def with_ends(tables):
    return tables | {"ends": tables["connections"].select(ENDS.names)}


@pytest.fixture(scope="module", params=[1, 2])
def counted(request):
    """Return random tables, their parts, and their rows with the facts of connections."""
    tables = with_ends(synthetic.tables(np.random.default_rng(request.param), 2000))
    connections = {row["connection"]: row for row in tables["connections"].to_pylist()}
    rows = tables["exchanges"].to_pylist()
    for row in rows:
        connection = connections[row["connection"]]
        row |= {name: connection[name] for name in ("client_host", "server_host", "server_port")}
        row["began"] = (
            row["response_first_ns"] if row["request_first_ns"] is None else row["request_first_ns"]
        )
        row["step"] = (row["began"] - SECONDS.start_ns) // SECONDS.step_ns
    return tables, summarise(tables, SECONDS), rows


def test_topic_moments(counted):
    tables, partial, rows = counted
    exchange = {(row["connection"], row["ordinal"]): row for row in rows if row["ordinal"] is not None}
    expected = defaultdict(lambda: [set(), 0, 0, 0])
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
