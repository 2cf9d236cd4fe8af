"""Events as columns against events decoded one by one, on recorded messages and on damaged ones."""

import numpy as np
import pyarrow as pa
import pytest

from kdissect.streams.engine import ExchangeBatch
from kdissect.tables import build, events, long_polls
from kdissect.tables.message_columns import MessageColumns
from tests.helpers import recorded
from tests.helpers.tiers import thorough_after

NAMES = ("rebalances.pcapng", "old-broker.pcap", "transactions.pcapng", "cluster-life.pcapng")
DAMAGED = 0.01  # of all bytes


@pytest.mark.parametrize("name", thorough_after(2, NAMES))
def test_columns_are_what_the_codec_decodes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(1)
    compared: list[int] = []

    def compare(
        table: str,
        batch: ExchangeBatch,
        request: MessageColumns,
        response: MessageColumns,
        exchanges: pa.RecordBatch,
    ) -> pa.RecordBatch:
        source = events.EVENT_SOURCES[table]
        rows = events.rows_with_event(batch, request, response, source.of_api)
        damage = (random.random(len(batch.arena)) < DAMAGED) * random.integers(1, 256, len(batch.arena))
        # The API and its version stand in the exchange, too: there they would stay as they were.
        starts = batch.exchanges["request"]["start"][rows]
        damage[starts[:, None] + np.arange(4)] = 0
        for arena in (batch.arena, batch.arena ^ damage.astype(np.uint8)):
            changed = batch._replace(arena=arena)
            decoded = events.decoded_events(source, changed, exchanges, rows)[0]
            assert events.event_rows(table, changed, request, response, exchanges).equals(decoded)
            compared.append(decoded.num_rows)
        return decoded

    monkeypatch.setattr(events, "FEW", 0)
    monkeypatch.setattr(build, "event_rows", compare)
    recorded.dissected.__wrapped__(name)
    assert sum(compared) > 10


def test_syncs_are_read_as_the_codec_reads_them(monkeypatch: pytest.MonkeyPatch) -> None:
    read = long_polls._carry_assignments
    seen: list[bool] = []

    def compare(batch: ExchangeBatch, rows: np.ndarray) -> np.ndarray:
        damaged = batch.arena.copy()
        damaged[::50] ^= 0x55
        starts = batch.exchanges["request"]["start"][rows, None] + np.arange(4)
        damaged[starts] = batch.arena[starts]
        for arena in (batch.arena, damaged):
            changed = batch._replace(arena=arena)
            carry = read(changed, rows)
            assert carry.tolist() == [long_polls._carries_assignment(changed, row) for row in rows.tolist()]
            seen.extend(carry.tolist())
        return carry

    monkeypatch.setattr(long_polls, "FEW_SYNCS", 0)
    monkeypatch.setattr(long_polls, "_carry_assignments", compare)
    recorded.dissected.__wrapped__("rebalances.pcapng")
    assert {True, False} == set(seen)
