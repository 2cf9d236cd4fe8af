"""Facts of the engine: which messages were not sent in full, and which only lack bytes in the capture."""

import numpy as np
import pytest

from kdissect.capture.index.index import index_captures
from kdissect.capture.inputs import open_inputs
from kdissect.capture.scan import scan_split
from kdissect.jit.many_rows import MANY_ROWS
from kdissect.jit.rows import Records, RowTable, array_of, new_table
from kdissect.streams.flow_state import REQUEST_SIDE, RESPONSE_SIDE, ExchangeRow
from kdissect.streams.tls.keylog import NO_KEYS
from kdissect.tables.build import new_table_processor, paired_batches
from kdissect.tables.engine_facts import SIDES, EngineFacts, _sides_with_early_stops, unfinished
from tests.helpers.recorded import CAPTURES

FACTS = EngineFacts(np.array([70, 71, 72]), {}, None)


def exchanges() -> Records:
    """Return three exchanges: the second has a request that stops early, the third a response."""
    frame = [("start", np.int64), ("stop", np.int64), ("frame_stop", np.int64)]
    rows = np.zeros(3, [("request", frame), ("response", frame), ("connection", np.int64)])
    rows["connection"] = [0, 1, 2]
    rows["request"] = [(1, 5, 5), (5, 7, 9), (9, 11, 11)]
    rows["response"] = [(11, 15, 15), (0, 0, 0), (15, 16, 20)]
    return rows


def test_a_message_that_stops_early_was_not_sent_in_full_if_nothing_else_is_missing() -> None:
    rows = exchanges()
    of_request = FACTS._replace(in_full={REQUEST_SIDE: np.array([True, True, True])})
    found = unfinished(rows, of_request)
    assert found[REQUEST_SIDE].tolist() == [False, True, False]
    assert found[RESPONSE_SIDE].tolist() == [False, False, False]
    lossy = FACTS._replace(in_full={REQUEST_SIDE: np.array([True, False, True])})
    assert not unfinished(rows, lossy)[REQUEST_SIDE].any()


@pytest.mark.parametrize("early", [(), (REQUEST_SIDE,), (RESPONSE_SIDE,), SIDES])
@pytest.mark.parametrize("count", [10, MANY_ROWS])
def test_sides_with_messages_that_stop_early(early: tuple[str, ...], count: int) -> None:
    table: RowTable[ExchangeRow] = new_table(ExchangeRow, count)
    rows = array_of(table)
    for side in SIDES:
        rows[side]["start"], rows[side]["stop"], rows[side]["frame_stop"] = 5, 9, 9
        rows[side][0] = (0, 1, 2, 0, 0, 0, 0)  # there is no message
    for side in early:
        rows[side]["frame_stop"][count - 1] = 10
    assert _sides_with_early_stops(rows) == list(early)


@pytest.mark.parametrize("name", ["steady.pcapng", "rebalances.pcapng"])
def test_facts_are_about_the_connections_of_the_batch(name: str) -> None:
    splits = index_captures(open_inputs([str(CAPTURES / name)], "").files).splits
    processor = new_table_processor(splits, NO_KEYS)
    early = 0
    for batch, facts, _ in paired_batches((scan_split(split) for split in splits), processor, {"ends"}):
        assert facts.ends is not None
        known = facts.identities[np.unique(batch.exchanges["connection"])]
        assert sorted(facts.ends["connection"].to_pylist()) == sorted(known.tolist())
        early += sum(int(rows.sum()) for rows in unfinished(batch.exchanges, facts).values())
    assert (early > 0) == (name == "rebalances.pcapng")
