"""Columns of headers: the loop for many exchanges writes what the plain way does."""

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pytest

from kdissect.jit.rows import array_of, integers_of, new_table
from kdissect.streams.flow_state import PACKET_BITS, REQUEST_SIDE, RESPONSE_SIDE, STATUS_NAMES, ExchangeRow
from kdissect.tables import header_columns
from kdissect.tables.coded_text import CodedText, NumberColumn


@dataclass(frozen=True)
class NamedSplit:
    """A split as far as columns of headers read it."""

    name: str


SPLITS = cast("Any", [NamedSplit("b.pcap"), NamedSplit("a.pcap"), NamedSplit("b.pcap")])


@pytest.mark.parametrize("count", [0, 1, 5000])
def test_many_exchanges_have_the_columns_of_few(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every field may be anything: also times and packets that are not there, and requests that are not."""
    rng = np.random.default_rng(count)
    exchanges = array_of(new_table(ExchangeRow, count))
    integers_of(exchanges)[:] = rng.integers(-2, 100, integers_of(exchanges).shape)
    exchanges["status"] = rng.integers(0, len(STATUS_NAMES), count)
    for side in (REQUEST_SIDE, RESPONSE_SIDE):
        exchanges[side]["packet"] = rng.integers(-1, len(SPLITS) << PACKET_BITS, count)
    monkeypatch.setattr(header_columns, "are_many", lambda _rows: True)
    written, plain = (
        columns(exchanges, header_columns.CaptureFiles.of(SPLITS))
        for columns in (header_columns.header_columns, header_columns.plain_columns)
    )
    assert written.keys() == plain.keys()
    for name, column in plain.items():
        one = written[name]
        if isinstance(column, NumberColumn):
            assert isinstance(one, NumberColumn)
            assert (one.values == column.values).all(), name
            assert (one.present == column.present).all(), name
            assert one.kind == column.kind
        else:
            assert isinstance(one, CodedText)
            assert one.arrow().equals(cast("CodedText", column).arrow())


def test_the_loop_writes_columns_in_the_order_of_their_types() -> None:
    header_columns.call_all()
    places = [getattr(header_columns, name.upper()) for name in header_columns.NUMBERS]
    assert places == list(range(len(header_columns.NUMBERS)))
