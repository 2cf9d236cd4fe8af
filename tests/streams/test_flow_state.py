"""The layout of the state: rows are the same for compiled and for plain loops, and values have names."""

import pytest

from kdissect.jit.rows import dtype_of, row_size
from kdissect.streams import flow_state
from kdissect.streams.flow_state import (
    ENDED_NAMES,
    PROTOCOL_NAMES,
    RST_SEEN,
    SASL_TOKEN,
    STATUS_NAMES,
    TLS_PASSED,
)
from kdissect.streams.state_pools import ABSENT_IN_CONNECTION, ABSENT_IN_DIRECTION, COUNTED

ROWS = [
    getattr(flow_state, name)
    for name in (
        "ConnectionRow",
        "DirectionRow",
        "ChunkRow",
        "FrameRow",
        "ExchangeRow",
        "SegmentRow",
        "StateCounters",
    )
]


@pytest.mark.parametrize("kind", ROWS, ids=lambda kind: kind.__name__)
def test_a_row_has_the_same_memory_as_its_dtype(kind) -> None:
    assert row_size(kind) == dtype_of(kind).itemsize
    assert dtype_of(kind).names == tuple(kind.__annotations__)


def test_every_value_that_is_shown_has_a_name() -> None:
    assert len(STATUS_NAMES) == SASL_TOKEN + 1
    assert len(PROTOCOL_NAMES) == TLS_PASSED + 1
    assert len(ENDED_NAMES) == RST_SEEN + 1


def test_lists_of_fields_name_fields() -> None:
    assert set(ABSENT_IN_CONNECTION) <= set(flow_state.ConnectionRow.__annotations__)
    assert set(ABSENT_IN_DIRECTION) | set(COUNTED) <= set(flow_state.DirectionRow.__annotations__)
