"""The timeline against plain loops over rows, and by hand where figures can be worked out on paper."""

import numpy as np
import pytest

from kdissect.report.partials import (
    ALL_TABLES,
    merge,
    summarise,
)
from kdissect.report.timeline.grid import (
    Grid,
)
from kdissect.report.timeline.timeline_tables import (
    TIMELINE_TABLES,
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


def test_the_same_however_rows_are_dealt_out(counted):
    tables, whole, _ = counted
    rng = np.random.default_rng(5)
    dealt = synthetic.in_batches(rng, {name: table for name, table in tables.items() if name != "ends"}, 7)
    partials = [summarise(part | {"ends": tables["ends"]}, SECONDS) for part in dealt]
    rng.shuffle(partials)
    merged = merge([merge(partials[:3]), merge(partials[3:])])
    for name in TIMELINE_TABLES.keys() - {"group_steps", "transaction_steps"}:
        part = ALL_TABLES[name]
        order = [(column, "ascending") for column, _ in part.keys]
        assert merged.table(part).sort_by(order).equals(whole.table(part).sort_by(order)), name
