"""Leaders and in-sync replicas as messages tell them: decoded once, dated by the first and the last."""

from pathlib import Path
from typing import Any

import pyarrow as pa

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.codec.messages import decode_response
from kdissect.tables import replica_sets
from kdissect.tables.anonymize import Pseudonyms
from tests.helpers.told_capture import T0_MS, Story
from tests.helpers.told_metadata import tell
from tests.helpers.told_tables import told_table

ALL = (1, 2, 3)


def told(story: Story, tmp_path: Path) -> pa.Table:
    """Return the rows that the messages of a story lead to."""
    return told_table(story, tmp_path, "replica_sets")


def test_the_same_response_is_decoded_once_and_dated_by_both(tmp_path: Path, monkeypatch: Any) -> None:
    decoded = []
    monkeypatch.setattr(
        replica_sets, "decode_response", lambda *frame: decoded.append(frame) or decode_response(*frame)
    )
    story = Story()
    for number in range(3):
        line = story.connect(f"10.1.0.{number}", client_id=f"client-{number}")
        tell(line, 1_000 * number, "orders", {0: (1, 4, ALL), 1: (2, 5, (2, 3))})
    rows = told(story, tmp_path).to_pylist()
    assert len(decoded) == 1
    assert [(row["partition"], row["leader_id"], row["leader_epoch"], row["isr"]) for row in rows] == [
        (0, 1, 4, "1,2,3"),
        (1, 2, 5, "2,3"),
    ]
    assert {row["messages"] for row in rows} == {3}
    assert {(row["first_ns"] // 10**6 - T0_MS, row["last_ns"] // 10**6 - T0_MS) for row in rows} == {
        (2, 2_002)
    }


def test_a_request_of_an_older_controller_tells_leaders(tmp_path: Path) -> None:
    story = Story()
    line = story.connect(client_id="controller-1")
    state = {
        "topic_name": "orders",
        "partition_index": 3,
        "controller_epoch": 1,
        "leader": 2,
        "leader_epoch": 9,
        "isr": [2],
        "partition_epoch": 1,
        "replicas": [2, 1],
    }
    request = {"controller_id": 1, "controller_epoch": 1, "ungrouped_partition_states": [state]}
    answer = {"error_code": 0, "partition_errors": []}
    line.call(5, 1, ApiKey.LEADER_AND_ISR, 0, request | {"live_leaders": []}, answer)
    (row,) = told(story, tmp_path).to_pylist()
    assert [row[name] for name in ("topic", "partition", "leader_id", "replicas", "isr")] == [
        "orders",
        3,
        2,
        "1,2",
        "2",
    ]


def test_topics_are_replaced_with_names(tmp_path: Path) -> None:
    story = Story()
    tell(story.connect(), 10, "orders", {0: (1, 4, ALL)})
    (batch,) = told(story, tmp_path).to_batches()
    (row,) = Pseudonyms.new("key").tables({"replica_sets": batch})["replica_sets"].to_pylist()
    assert row["topic"].startswith("topic-")
    assert row["capture_file"].startswith("capture-")


def test_other_traffic_tells_nothing(tmp_path: Path) -> None:
    story = Story()
    story.connect().call(10, 2, ApiKey.HEARTBEAT, 2, {"group_id": "g"}, {"error_code": 0})
    assert told(story, tmp_path).num_rows == 0
