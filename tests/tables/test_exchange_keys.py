"""Rows find their exchange by connection and ordinal."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from kdissect.tables.exchange_keys import ExchangeKeys, find_exchanges

KEY = st.tuples(st.sampled_from([-(1 << 60), 3, 1 << 60]), st.none() | st.integers(0, 5))


def keys_of(rows: list[tuple[int, int | None]]) -> ExchangeKeys:
    columns = {"connection": [row[0] for row in rows], "ordinal": [row[1] for row in rows]}
    schema = pa.schema([("connection", pa.int64()), ("ordinal", pa.int64())])
    return ExchangeKeys.of(pa.record_batch(columns, schema=schema))


@given(st.lists(KEY), st.lists(KEY, unique=True))
def test_each_row_finds_the_exchange_with_its_key(
    rows: list[tuple[int, int | None]], exchanges: list[tuple[int, int | None]]
) -> None:
    expected = [exchanges.index(row) if row[1] is not None and row in exchanges else -1 for row in rows]
    assert find_exchanges(keys_of(rows), keys_of(exchanges)).tolist() == expected


def test_without_exchanges_nothing_is_found() -> None:
    assert find_exchanges(keys_of([(3, 0), (3, 1)]), keys_of([])).tolist() == [-1, -1]
    assert find_exchanges(keys_of([]), keys_of([(3, 0)])).dtype == np.int64
