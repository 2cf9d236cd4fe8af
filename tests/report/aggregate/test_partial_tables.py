"""How rows of a partial become one, and that every table has one row for each key."""

import numpy as np

from kdissect.report.aggregate.partial_tables import PARTIAL_TABLES
from kdissect.report.partials import (
    summarise,
)
from tests.helpers import synthetic_tables as synthetic


def test_parts_have_one_row_per_key():
    partial = summarise(synthetic.tables(np.random.default_rng(4), 3000))
    for name, part in PARTIAL_TABLES.items():
        keys = partial.table(part).select([key for key, _ in part.keys])
        assert keys.group_by(keys.column_names).aggregate([]).num_rows == keys.num_rows, name
        assert keys.num_rows, name
