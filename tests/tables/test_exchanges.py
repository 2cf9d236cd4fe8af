"""Rows of exchanges are consistent in themselves."""

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from kdissect.capture.index.index import index_captures
from kdissect.capture.inputs import open_inputs
from kdissect.capture.scan import scan_split
from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.error_codes import error_name
from kdissect.protocol.schema.registry import APIS, api_name
from kdissect.tables.build import dissect_batches
from kdissect.tables.exchanges import MANY_GROUPS, distinct, error_names
from tests.helpers import recorded
from tests.helpers.told_capture import Story

NAME = "refusals.pcapng"


def test_latency_is_from_the_last_byte_to_the_first() -> None:
    measured = [row for row in recorded.rows(NAME, "exchanges") if row["latency_ns"] is not None]
    assert measured
    for row in measured:
        assert row["latency_ns"] == row["response_first_ns"] - row["request_last_ns"]
        assert row["request_first_ns"] <= row["request_last_ns"]
        assert row["response_first_ns"] <= row["response_last_ns"]


def test_names_belong_to_keys_and_codes() -> None:
    rows = recorded.rows(NAME, "exchanges")
    assert any(row["error_code"] for row in rows)
    for row in rows:
        assert row["api_name"] == (None if row["api_key"] is None else api_name(row["api_key"]))
        assert row["error_name"] == (None if row["error_code"] is None else error_name(row["error_code"]))


def test_a_request_for_several_groups_has_no_group_of_its_own(tmp_path: Path) -> None:
    line = (story := Story()).connect()
    asked: list[tuple[ApiKey, int, dict[str, Any]]] = [
        (ApiKey.OFFSET_FETCH, 8, {"groups": [{"group_id": "one"}]}),
        (ApiKey.OFFSET_FETCH, 8, {"groups": [{"group_id": "one"}, {"group_id": "two"}]}),
        (ApiKey.OFFSET_FETCH, 7, {"group_id": "one", "topics": []}),
        (ApiKey.DESCRIBE_GROUPS, 4, {"groups": ["one"]}),
        (ApiKey.DESCRIBE_GROUPS, 4, {"groups": ["one", "two"]}),
        (ApiKey.DELETE_GROUPS, 2, {"groups_names": ["one", "two"]}),
        (ApiKey.FIND_COORDINATOR, 4, {"coordinator_keys": ["one"]}),
        (ApiKey.FIND_COORDINATOR, 4, {"coordinator_keys": ["one", "two"]}),
        (ApiKey.CONSUMER_GROUP_DESCRIBE, 0, {"group_ids": ["one", "two"]}),
    ]
    for number, (key, version, request) in enumerate(asked):
        line.ask(10.0 + number, key, version, request)
    splits = index_captures(open_inputs([story.write(tmp_path / "it.pcap")], "").files).splits
    found = [
        row["group_id"]
        for batch in dissect_batches((scan_split(split) for split in splits), splits)
        if "exchanges" in batch
        for row in batch["exchanges"].to_pylist()
    ]
    assert found == ["one", None, "one", "one", None, None, "one", None, None]


def test_every_request_that_names_groups_in_an_array_is_known() -> None:
    arrays = {
        key
        for key, api in APIS.items()
        for field in api.request.fields
        if field.array and "group" in {field.role, *(inner.role for inner in field.fields)}
    }
    assert arrays | {ApiKey.FIND_COORDINATOR} == MANY_GROUPS


def test_ordinals_of_a_connection_have_no_gap() -> None:
    ordinals = defaultdict(list)
    for row in recorded.rows(NAME, "exchanges"):
        if row["ordinal"] is not None:
            ordinals[row["connection"]].append(row["ordinal"])
    assert ordinals
    assert all(sorted(numbers) == list(range(len(numbers))) for numbers in ordinals.values())


def test_error_names_are_null_where_there_is_no_code() -> None:
    codes, present = np.array([0, 6, 6]), np.array([True, True, False])
    assert error_names(codes, present).arrow().to_pylist() == ["NONE", "NOT_LEADER_OR_FOLLOWER", None]


def test_codes_are_found_as_sorting_finds_them() -> None:
    rng = np.random.default_rng(1)
    for least, most in ((0, 1), (-3, 90), (-(1 << 15), 1 << 15)):
        codes, present = rng.integers(least, most, 200), rng.random(200) < 0.5
        assert distinct(codes, present) == np.unique(codes[present]).tolist()
        assert distinct(codes, present | True) == np.unique(codes).tolist()
        assert distinct(codes, present & False) == []


def test_without_errors_there_is_one_name() -> None:
    present = np.array([True, False])
    named = error_names(np.zeros(2, np.int64), present)
    assert named.arrow().to_pylist() == ["NONE", None]
    assert error_names(np.zeros(2, np.int64), present & False).arrow().to_pylist() == [None, None]
