"""Rows of exchanges are consistent in themselves."""

from collections import defaultdict

import numpy as np

from kdissect.protocol.error_codes import error_name
from kdissect.protocol.schema.registry import api_name
from kdissect.tables.exchanges import distinct, error_names
from tests.helpers import recorded

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
