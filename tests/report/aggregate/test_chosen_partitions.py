"""Rows of partitions are chosen as a loop over plain rows chooses them."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from kdissect.protocol.api_keys import OFFSET_COMMITS, ApiKey
from kdissect.report.aggregate.chosen_partitions import (
    MOST_OFFSET,
    NO_OFFSET,
    ChosenPartitions,
    chosen_partitions,
)
from kdissect.report.aggregate.grouping import TableColumns
from kdissect.report.aggregate.topics import rows_of_exchanges
from tests.helpers import synthetic_tables as synthetic


def names_of(row: dict[str, Any], exchange: dict[str, Any]) -> Iterator[str]:
    """Yield what a row is counted for; columns that are null are None."""
    key, offset, end = row["api_key"], row["offset"], row["high_watermark"]
    if key in (ApiKey.PRODUCE, ApiKey.FETCH) and (row["batches"] or 0) > 0:
        yield "load"
    if row["error_code"] or offset is None:
        return
    if key == ApiKey.FETCH:
        if end is not None and end >= 0 and offset >= 0 and row["partition"] is not None:
            yield "lags"
        if (row["record_bytes"] or 0) > 0 and exchange["replica_id"] is None:
            yield "reads"
    if exchange["response_first_ns"] is None:
        return
    if offset == NO_OFFSET and key == ApiKey.OFFSET_FETCH:
        yield "absent"
    if not 0 <= offset < MOST_OFFSET:
        return
    if key == ApiKey.PRODUCE:
        yield "written"
    if key == ApiKey.FETCH and end is not None and 0 <= end < MOST_OFFSET:
        yield "fetched"
    if key in (*OFFSET_COMMITS, ApiKey.OFFSET_FETCH):
        yield "committed"


def hostile(rng: np.random.Generator, partitions):
    """Return partitions with offsets that may be any, and more APIs."""
    changed = {
        "offset": [0, 5, -1, -2, MOST_OFFSET, MOST_OFFSET - 1],
        "high_watermark": [-1, 0, 7, MOST_OFFSET],
        "api_key": [0, 1, 8, 9, 28, 3],
    }
    for name, values in changed.items():
        field = partitions.schema.field(name)
        nulls = rng.random(len(partitions)) < (0.2 if name != "api_key" else 0)
        column = synthetic.nulls_where(rng.choice(values, len(partitions)), nulls, field.type)
        partitions = partitions.set_column(partitions.schema.get_field_index(name), name, column)
    return partitions


@pytest.mark.parametrize("rows", [0, 1, 2000])
@pytest.mark.parametrize("orphans", [False, True])
def test_rows_are_those_of_a_loop(rows: int, orphans: bool) -> None:
    rng = np.random.default_rng(rows)
    tables = synthetic.tables(rng, rows)
    partitions = TableColumns(hostile(rng, tables["partitions"]))
    exchanges = TableColumns(tables["exchanges"].slice(rows // 3 if orphans else 0))
    exchange_rows = rows_of_exchanges(partitions, exchanges)
    whole = exchanges.table.to_pylist()
    expected: dict[str, list[int]] = {name: [] for name in ChosenPartitions._fields}
    for number, (row, exchange) in enumerate(
        zip(partitions.table.to_pylist(), exchange_rows.tolist(), strict=True)
    ):
        for name in names_of(row, whole[exchange]) if exchange >= 0 else ():
            expected[name].append(number)
    chosen = chosen_partitions(partitions, exchanges, exchange_rows)
    assert {name: found.tolist() for name, found in chosen._asdict().items()} == expected
    assert chosen_partitions(partitions, exchanges, exchange_rows) is chosen
    if rows > 1:
        assert all(expected.values())
