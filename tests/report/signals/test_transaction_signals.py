"""Transactions as signals: how long they are open, against what is usual."""

from pathlib import Path

import pytest

from kdissect.protocol.api_keys import ApiKey
from tests.helpers.told_capture import Story
from tests.helpers.told_groups import analyzed

PRODUCER = {"transactional_id": "bank", "producer_id": 9, "producer_epoch": 0}


@pytest.mark.parametrize(("usual_ms", "is_told"), [(500, True), (9_000, False)])
def test_a_transaction_is_open_for_long_if_it_is_unusual(
    usual_ms: int, is_told: bool, tmp_path: Path
) -> None:
    story = Story()
    line = story.connect("10.1.0.2", client_id="holder")
    at_ms = 100
    for length_ms in (usual_ms, usual_ms, 12_000):
        topics = [{"name": "orders", "partitions": [0]}]
        request = {f"v3_and_below_{name}": value for name, value in PRODUCER.items()}
        found = [{"name": "orders", "results_by_partition": [{"partition_index": 0}]}]
        body = request | {"v3_and_below_topics": topics}
        response = {"results_by_topic_v3_and_below": found}
        line.call(at_ms, 1, ApiKey.ADD_PARTITIONS_TO_TXN, 1, body, response)
        line.call(at_ms + length_ms, 1, ApiKey.END_TXN, 1, PRODUCER | {"committed": True}, {})
        at_ms += length_ms + 100
    found_signals = [one for one in analyzed(story, tmp_path).signals if one.kind == "transaction_open"]
    assert [one.subject.name for one in found_signals] == ["bank"] * is_told
    assert all(one.end_ns is not None for one in found_signals)
