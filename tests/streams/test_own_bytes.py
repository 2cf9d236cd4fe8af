"""Batches with bytes of their own: the same messages, in parts that are small enough."""

import numpy as np
import pytest

from kdissect.capture.index.index import index_captures
from kdissect.capture.inputs import open_inputs
from kdissect.capture.scan import scan_split
from kdissect.protocol.schema.registry import highest_versions
from kdissect.streams.engine import ExchangeBatch
from kdissect.streams.flow_state import REQUEST_SIDE, RESPONSE_SIDE
from kdissect.streams.own_bytes import own_bytes
from kdissect.streams.tls.decrypt_stage import new_flow_processor
from kdissect.streams.tls.keylog import NO_KEYS
from tests.helpers.recorded import CAPTURES

FRAME = ("first_byte_ns", "last_byte_ns", "packet", "position")
EXCHANGE = ("connection", "ordinal", "status", "api_key", "api_version", "correlation_id", "in_flight")


def told(batch: ExchangeBatch) -> list[object]:
    """Return all that a batch says, without the places of bytes."""
    rows: list[object] = []
    for exchange in batch.exchanges:
        rows += [tuple(int(exchange[name]) for name in EXCHANGE)]
        for side in (REQUEST_SIDE, RESPONSE_SIDE):
            frame = exchange[side]
            start, stop = int(frame["start"]), int(frame["stop"])
            rows += [start > 0, batch.arena[start:stop].tobytes(), int(frame["frame_stop"]) - start]
            rows += [int(frame[name]) for name in FRAME]
    return rows


@pytest.mark.parametrize("name", ["steady.pcapng", "refusals.pcapng", "sasl.pcapng", "old-broker.pcap"])
def test_all_messages_stay_what_they_are(name: str) -> None:
    splits = index_captures(open_inputs([str(CAPTURES / name)], "").files).splits
    processor = new_flow_processor(splits, np.array(highest_versions(), np.int64), NO_KEYS, tokens=True)
    seen = 0

    def check(batch: ExchangeBatch) -> None:
        nonlocal seen
        seen += len(batch.exchanges)
        expected = told(batch)
        for most in (1 << 30, 5000, 0):
            parts = list(own_bytes(batch, most))
            assert [row for part in parts for row in told(part)] == expected
            for part in parts:
                assert len(part.exchanges) == 1 or len(part.arena) <= most + 1
        assert told(batch) == expected

    for split in splits:
        for batch in processor.feed(scan_split(split).slice(1)):
            check(batch)
    for batch in processor.close():
        check(batch)
    assert seen > 20
