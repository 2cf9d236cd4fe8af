"""Every table of a partial has one row for each key, and columns that decide which row is the first."""

import numpy as np
import pytest

from kdissect.report.aggregate.partial_tables import PARTIAL_TABLES
from kdissect.report.partials import (
    summarise,
)
from tests.helpers import synthetic_tables as synthetic
from tests.helpers.tally import TALLY


def test_parts_have_one_row_per_key():
    partial = summarise(synthetic.tables(np.random.default_rng(4), 3000))
    for name, part in PARTIAL_TABLES.items():
        keys = partial.table(part).select([key for key, _ in part.keys])
        assert keys.group_by(keys.column_names).aggregate([]).num_rows == keys.num_rows, name
        assert keys.num_rows, name


def test_the_schema_has_keys_sums_lowest_highest_and_first():
    assert TALLY.schema.names == ["who", "count", "first", "last", "at", "packet"]


@pytest.mark.parametrize("part", PARTIAL_TABLES.values(), ids=PARTIAL_TABLES)
def test_what_decides_the_first_row_is_in_the_table(part):
    names = part.schema.names
    assert len(names) == len(set(names))
    assert set(part.order) <= set(names)
    assert not part.first or part.order
