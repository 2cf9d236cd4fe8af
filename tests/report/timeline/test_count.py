"""The timeline against plain loops over rows, and by hand where figures can be worked out on paper."""

import numpy as np

from kdissect.report.partials import (
    ALL_TABLES,
    merge,
    summarise,
)
from kdissect.report.timeline.timeline_tables import (
    TIMELINE_TABLES,
)
from tests.helpers import synthetic_tables as synthetic
from tests.report.timeline.conftest import SECONDS


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
