"""`replay.load.captured_reads` and `replay.pass_state`, by the recorded transactions of a capture."""

from __future__ import annotations

from contextlib import closing

from kdissect.protocol.api_keys import ApiKey
from kdissect.replay.engine.run import Replay
from kdissect.replay.pass_state import ReadOrder, RequestGates
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
