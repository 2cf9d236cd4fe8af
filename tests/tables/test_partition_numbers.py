"""Numbers of partition rows: the loop for many rows writes what the plain way does."""

from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from kdissect.jit.rows import array_of, integers_of, new_table
from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.columnar.batch_reader import RecordSummaries, Table
from kdissect.protocol.columnar.registers import (
    ROW,
    ROW_SLOTS,
    ROW_WIDTH,
    SUMMARY_AT,
    SUMMARY_ROW,
    SUMMARY_WIDTH,
)
from kdissect.protocol.columnar.vm_state import OWNER, OWNER_PRESENT, OWNER_WIDTH
from kdissect.streams.flow_state import ExchangeRow
from kdissect.tables import partition_numbers as module
from kdissect.tables.arrow_columns import UUID_BYTES
from kdissect.tables.message_columns import MessageColumns
from kdissect.tables.partition_numbers import (
    NUMBERS,
    PartitionSide,
    RowPairs,
    partition_numbers,
    plain_numbers,
)

EXCHANGES, ROWS = 12, 300
ARENA = np.zeros(200, np.uint8)
ARENA[::40] = 7


def any_side(rng: np.random.Generator) -> PartitionSide:
    """Return rows of registers of which any may be present, with any numbers in them."""
    wide = rng.integers(-3, 1 << 40, (ROWS, OWNER_WIDTH + ROW_WIDTH))
    small = rng.random(wide.shape) < 0.5
    wide[small] = rng.integers(-1, 3, small.sum())
    wide[:, OWNER], wide[:, OWNER_PRESENT] = (
        np.sort(rng.integers(0, EXCHANGES, ROWS)),
        rng.integers(0, 1 << 20, ROWS),
    )
    values = wide[:, OWNER_WIDTH:]
    values[:, ROW_SLOTS["topic_id"]] = rng.integers(0, len(ARENA) - UUID_BYTES, ROWS)
    values[:, ROW_SLOTS["record_set"]] = rng.integers(0, 1 << 40, ROWS)
    table = Table(ROW, wide[:, OWNER], wide[:, OWNER_PRESENT], values)
    rows = table.rows_with("record_set")
    summaries = rng.integers(-1, 3, (len(rows), SUMMARY_WIDTH))
    summaries[:, SUMMARY_ROW] = rows
    values[:, SUMMARY_AT] = -1
    values[rows, SUMMARY_AT] = np.arange(len(rows))
    read = SimpleNamespace(
        partitions=table, records=RecordSummaries(summaries, values[:, SUMMARY_AT]), rows=wide
    )
    columns = SimpleNamespace(columns=read, rows=np.arange(EXCHANGES), derived={})
    return PartitionSide(ARENA, cast("MessageColumns", columns))


@pytest.mark.parametrize("seed", range(8))
def test_many_rows_have_the_numbers_of_few(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    exchanges = array_of(new_table(ExchangeRow, EXCHANGES))
    integers_of(exchanges)[:] = rng.integers(-2, 100, integers_of(exchanges).shape)
    exchanges["api_key"] = rng.choice([ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.METADATA], EXCHANGES)
    requests, responses = any_side(rng), any_side(rng)
    one, other = rng.integers(-1, ROWS, (2, 2 * ROWS))
    pairs = RowPairs(one, other, np.sort(rng.integers(0, EXCHANGES, 2 * ROWS)))
    monkeypatch.setattr(module, "are_many", lambda _rows: True)
    arguments = exchanges, np.arange(EXCHANGES) + 70, requests, responses, pairs
    written, plain = partition_numbers(*arguments), plain_numbers(*arguments)
    assert list(written.columns) == list(plain.columns) == list(NUMBERS)
    for name, column in plain.columns.items():
        assert written.columns[name].present.tolist() == column.present.tolist(), name
        assert written.columns[name].values.tolist() == column.values.tolist(), name
        assert written.columns[name].kind == column.kind
    for texts, plain_texts in zip(written[1:], plain[1:], strict=True):
        assert texts.tolist() == plain_texts.tolist()
    assert len(plain.tried) or seed


@pytest.mark.parametrize("many", [False, True])
def test_the_high_watermark_is_that_of_the_response(many: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower says in its fetch which one it knows (KIP-1166), and the answer may leave it out."""
    monkeypatch.setattr(module, "are_many", lambda _rows: many)
    side = any_side(np.random.default_rng(0))
    at = np.flatnonzero(side.table.integers("high_watermark").present)[:20]
    none, exchange = np.full(len(at), -1), np.zeros(len(at), np.int64)
    exchanges = array_of(new_table(ExchangeRow, EXCHANGES))
    for pairs, is_known in ((RowPairs(at, none, exchange), False), (RowPairs(none, at, exchange), True)):
        found = partition_numbers(exchanges, np.arange(EXCHANGES), side, side, pairs).columns
        assert found["high_watermark"].present.tolist() == [is_known] * 20


def test_the_loop_writes_columns_in_the_order_of_their_types() -> None:
    module.call_all()
    places = [getattr(module, f"{name.upper()}_AT") for name in NUMBERS]
    assert places == list(range(len(NUMBERS)))
