"""`replay.load.captured_reads` and `replay.pass_state`, by the recorded transactions of a capture."""

from __future__ import annotations

import tracemalloc
from contextlib import closing

import numpy as np

from kdissect.protocol.api_keys import ApiKey
from kdissect.replay.engine.run import Replay
from kdissect.replay.load.captured_reads import FIRST_INCARNATION, CapturedReads
from kdissect.replay.pass_state import ReadOrder, RequestGates
from kdissect.replay.rewrite.names import Names
from kdissect.replay.settings import Groups, ReplaySettings
from tests.helpers.conversations import CAPTURES


def test_reads_come_after_what_they_read() -> None:
    settings = ReplaySettings((("127.0.0.1", 1),), groups=Groups.SIMPLE)
    with closing(Replay(settings, [str(CAPTURES / "transactions.pcapng")])) as replay:
        loaded = replay.loaded
    items, gates = loaded.items, RequestGates()
    order = ReadOrder(loaded.reads, loaded.shares, gates)
    fetches = [
        item.request
        for item in items
        if item.request.key == ApiKey.FETCH
        and "transfers" in {topic for topic, _ in loaded.reads.reads(item.request.index)}
    ]
    assert fetches
    ends = {items[each].request.key for fetch in fetches for each in loaded.reads.before.get(fetch.index, ())}
    assert ends == {ApiKey.END_TXN}
    commits = [item.request for item in items if item.request.key == ApiKey.OFFSET_COMMIT]
    assert {
        items[each].request.key for commit in commits for each in loaded.reads.before.get(commit.index, ())
    } <= {ApiKey.FETCH}
    for fetch in fetches:
        missing = set()
        while (index := order.missing_of_answer(fetch.index)) is not None:
            assert items[index].request.first_ns < (fetch.answered_ns or 0)
            missing.add(items[index].request.key)
            gates.end(index)
        assert missing <= {ApiKey.PRODUCE, ApiKey.END_TXN}
    assert len(gates) > len(fetches) / 2


def test_produces_of_deleted_topics_are_kept_once() -> None:
    """An offset takes 8 bytes and a request 4; arrays that grow have an eighth more."""
    count, deletions, where = 40_000, (9_999, 29_999), ("orders", 0)
    captured, names = CapturedReads(), Names(ReplaySettings((("127.0.0.1", 1),)), {})
    for index in deletions:
        captured.note_deletion(index, {"responses": [{"name": "orders", "error_code": 0}]}, names)
    tracemalloc.start()
    try:
        captured.add_writes(where, np.arange(count) % 10_000, np.arange(count))
        captured.finish()
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 1.5 * 12 * count
    written = {
        incarnation: len(captured.writers_before(where, count, incarnation)[0])
        for incarnation in (FIRST_INCARNATION, *deletions)
    }
    assert written == {FIRST_INCARNATION: 10_000, 9_999: 20_000, 29_999: 10_000}
    assert sum(map(len, captured.writers_of("orders"))) == count
    assert captured.first_written(*where) == 0
