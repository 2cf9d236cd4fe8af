"""Rows find their exchange by connection and ordinal."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdissect.tables import exchange_keys
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


@pytest.mark.parametrize("step", [1, 1000])
def test_an_array_and_a_search_find_the_same(monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    random = np.random.default_rng(step)
    exchanges: list[tuple[int, int | None]]
    exchanges = [(connection, ordinal * step) for connection in (9, 4) for ordinal in range(40)]
    exchanges += [exchanges[7], (4, None), exchanges[50]]  # of equal keys the first counts
    chosen = random.integers(0, 60, (500, 2)).tolist()
    rows = [(number % 2 * 5 + 4, None if ordinal == 50 else ordinal * step) for number, ordinal in chosen]
    expected = [exchanges.index(row) if row[1] is not None and row in exchanges else -1 for row in rows]
    for cells in (0, 1 << 20):
        monkeypatch.setattr(exchange_keys, "DIRECT_CELLS", cells)
        assert find_exchanges(keys_of(rows), keys_of(exchanges)).tolist() == expected


@given(
    exchanges=st.lists(KEY, max_size=12, unique=True),
    chosen=st.lists(st.integers(0, 11), max_size=30),
    ordered=st.booleans(),
    others=st.lists(KEY, max_size=1),
)
def test_following_exchanges_finds_the_same(
    exchanges: list[tuple[int, int | None]],
    chosen: list[int],
    ordered: bool,
    others: list[tuple[int, int | None]],
) -> None:
    """Rows in the order of exchanges are followed, and others are found as before."""
    if ordered:
        exchanges = sorted(exchanges, key=lambda key: (key[0], key[1] or 0))
        chosen = sorted(chosen)
    rows = [exchanges[place] for place in chosen if place < len(exchanges)] + others
    plain = find_exchanges(keys_of(rows), keys_of(exchanges)).tolist()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exchange_keys, "are_many", lambda rows: rows > 0)
        assert find_exchanges(keys_of(rows), keys_of(exchanges)).tolist() == plain


def test_many_rows_in_the_order_of_their_exchanges_are_followed() -> None:
    exchange_keys.call_all()
    exchanges: list[tuple[int, int | None]]
    exchanges = [(connection, ordinal) for connection in (9, 4) for ordinal in (2, 3, None, 5, 8)]
    rows = [exchanges[place] for place in (0, 0, 1, 2, 3, 3, 6, 9, 9)]
    found = exchange_keys._followed(keys_of(rows), keys_of(exchanges))
    assert found is not None
    assert found.tolist() == [0, 0, 1, -1, 3, 3, 6, 9, 9]
    assert exchange_keys._followed(keys_of([(9, 4)]), keys_of(exchanges)) is None
    assert exchange_keys._followed(keys_of(rows[::-1]), keys_of(exchanges)) is None
