"""Random tables counted over steps of time, and their rows with the facts of connections."""

import numpy as np
import pytest

from kdissect.report.partials import summarise
from kdissect.report.timeline.grid import Grid
from kdissect.tables.schemas import ENDS
from tests.helpers import synthetic_tables as synthetic

SECONDS = Grid(synthetic.START_NS, 5_000_000, 100)


@pytest.fixture(scope="session", params=[1, 2])
def counted(request):
    """Random tables, their partial, and their rows with the facts of connections, times and steps."""
    tables = synthetic.tables(np.random.default_rng(request.param), 2000)
    tables |= {"ends": tables["connections"].select(ENDS.names)}
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
