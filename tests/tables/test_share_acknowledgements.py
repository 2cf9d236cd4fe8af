"""Acknowledgements of share groups as rows: kinds and records, by batch or by offset."""

from pathlib import Path
from typing import Any

import pyarrow as pa

from kdissect.protocol.api_keys import ApiKey
from kdissect.tables.anonymize import Pseudonyms
from kdissect.text import format_uuid
from tests.helpers.told_capture import Story
from tests.helpers.told_shares import ACCEPTED, REFUSED, RELEASED, TOPIC_ID, share_fetch
from tests.helpers.told_tables import told_table

GAP, RENEWAL = 0, 4


def told(story: Story, tmp_path: Path) -> pa.Table:
    """Return the rows that the messages of a story lead to."""
    return told_table(story, tmp_path, "share_acknowledgements")


def kinds(rows: pa.Table) -> dict[Any, int]:
    return {(row["kind"], row["deliveries"]): row["records"] for row in rows.to_pylist()}


def test_one_type_counts_for_all_offsets_and_many_types_for_one_each(tmp_path: Path) -> None:
    story = Story()
    line = story.connect(client_id="member-1")
    types = (ACCEPTED, RELEASED, GAP, REFUSED, RELEASED, RENEWAL)
    share_fetch(line, 10, decided=[((0, 9), (ACCEPTED,)), ((10, 15), types)])
    rows = told(story, tmp_path)
    assert kinds(rows) == {("accept", 0): 11, ("release", 0): 2, ("reject", 0): 1}
    row = rows.to_pylist()[0]
    assert (row["client_id"], row["group_id"], row["partition"]) == ("member-1", "queue", 0)
    assert row["topic_id"] == format_uuid(TOPIC_ID)


def test_both_apis_acknowledge(tmp_path: Path) -> None:
    story = Story()
    line = story.connect(client_id="member-1")
    share_fetch(line, 10, decided=[((0, 4), (RELEASED,))], key=ApiKey.SHARE_ACKNOWLEDGE)
    assert kinds(told(story, tmp_path)) == {("release", 0): 5}


def test_a_response_hands_out_records_with_the_most_deliveries(tmp_path: Path) -> None:
    story = Story()
    share_fetch(story.connect(), 10, handed_out=[((0, 4), 1), ((5, 5), 4), ((6, 9), 2)])
    assert kinds(told(story, tmp_path)) == {("handed_out", 4): 10}


def test_spans_that_cannot_be_count_nothing_or_as_much_as_fits(tmp_path: Path) -> None:
    story = Story()
    line = story.connect()
    share_fetch(line, 10, decided=[((9, 0), (RELEASED,)), ((0, (1 << 63) - 1), (REFUSED,))])
    assert kinds(told(story, tmp_path))["reject", 0] == 1 << 31


def test_a_damaged_request_has_what_stands_in_front_of_the_damage(tmp_path: Path) -> None:
    story = Story()
    line = story.connect(client_id="member-1")
    share_fetch(line, 10, decided=[((0, 4), (RELEASED,)), ((5, 9), (RELEASED,))])
    at = next(number for number, (*_, payload) in enumerate(line.sent) if payload)
    *about, payload = line.sent[at]
    behind_last_offset = 7
    damaged = payload[:-behind_last_offset] + b"\xff" * behind_last_offset
    line.sent[at] = (*about, damaged)
    assert kinds(told(story, tmp_path)) == {("release", 0): 5}


def test_names_are_replaced(tmp_path: Path) -> None:
    story = Story()
    share_fetch(story.connect(client_id="member-1"), 10, decided=[((0, 4), (ACCEPTED,))])
    (batch,) = told(story, tmp_path).to_batches()
    name = "share_acknowledgements"
    (row,) = Pseudonyms.new("key").tables({name: batch})[name].to_pylist()
    assert row["client_id"].startswith("client-")
    assert row["group_id"].startswith("group-")
    assert row["topic_id"] != format_uuid(TOPIC_ID)


def test_other_traffic_has_no_rows(tmp_path: Path) -> None:
    story = Story()
    story.connect().call(10, 2, ApiKey.HEARTBEAT, 2, {"group_id": "g"}, {"error_code": 0})
    share_fetch(story.connect(), 20)
    assert told(story, tmp_path).num_rows == 0
