"""The watermark is never later than the first byte of an exchange that is still to come."""

import pytest

from kdissect.capture.index.index import index_captures
from kdissect.capture.inputs import open_inputs
from kdissect.exchanges.prescan import new_processor, scan_pieces
from kdissect.exchanges.watermark import NEVER, earliest_unfinished
from kdissect.streams.engine import ExchangeBatch
from kdissect.streams.flow_state import ORPHAN_RESPONSE
from kdissect.streams.processor import FlowProcessor
from kdissect.streams.tls.keylog import NO_KEYS
from tests.helpers.recorded import CAPTURES


def first_times(batch: ExchangeBatch) -> list[int]:
    return [
        int(row["response" if row["status"] == ORPHAN_RESPONSE else "request"]["first_byte_ns"])
        for row in batch.exchanges
    ]


def held_ns(processor: FlowProcessor) -> int:
    return min(earliest_unfinished(state, count) for state, count in processor.states())


@pytest.mark.parametrize("name", ["rebalances.pcapng", "clock-step.pcapng"])
def test_no_exchange_of_earlier_splits_begins_before_it(name: str) -> None:
    splits = index_captures(open_inputs([str(CAPTURES / name)], "").files, 50_000).splits
    processor = new_processor(splits, NO_KEYS)
    assert held_ns(processor) == NEVER
    marks, before = [], 0
    for pieces in scan_pieces(splits, ()):
        seen_ns = min(pieces["first_time_ns"].to_pylist(), default=NEVER)
        for batch in processor.feed(pieces):
            times = first_times(batch)
            before += sum(time < seen_ns for time in times)
            assert not marks or all(time >= min(marks[-1], seen_ns) for time in times)
        marks.append(held_ns(processor))
    last = [time for batch in processor.close() for time in first_times(batch)]
    assert all(time >= marks[-1] for time in last)
    assert before, "no exchange spans two splits: the test shows nothing"
