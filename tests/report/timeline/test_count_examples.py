"""Examples are whole rows of exchanges: the slowest, those with errors, and all of a small capture."""

import json

import numpy as np
import pyarrow as pa
import pytest

from kdissect.report.partials import merge, summarise
from kdissect.report.timeline.count_examples import (
    EXAMPLE_TABLES,
    EXAMPLES_BY_CONNECTION,
    EXAMPLES_BY_ERROR,
    EXAMPLES_BY_LATENCY,
    KEPT,
    MOST_PARTITIONS,
    PARTITION_FIELDS,
)
from kdissect.tables.schemas import EXCHANGES
from tests.report.random_page import random_page


@pytest.fixture(scope="module")
def made():
    return random_page(exchanges=900)


def rows(partial, part):
    return partial.table(part).to_pylist()


def key(row):
    return row["connection"], row["ordinal"]


def test_all_of_a_small_capture_are_there_with_their_columns(made):
    tables, _, _, partial = made
    exchanges = {key(row): row for row in tables["exchanges"].to_pylist() if row["ordinal"] is not None}
    found = {key(row): row for row in rows(partial, EXAMPLES_BY_CONNECTION)}
    assert found.keys() == exchanges.keys()
    for place, row in found.items():
        assert {field.name: row[field.name] for field in KEPT} == {
            field.name: exchanges[place][field.name] for field in KEPT
        }


def test_the_slowest_of_each_api_is_among_them(made):
    tables, _, _, partial = made
    slowest = {}
    for row in tables["exchanges"].to_pylist():
        if row["latency_ns"] is not None and 0 <= row["latency_ns"] < 10**12 and row["api_key"] is not None:
            slowest[row["api_key"]] = max(slowest.get(row["api_key"], 0), row["latency_ns"])
    found = {}
    for row in rows(partial, EXAMPLES_BY_LATENCY):
        if row["latency_ns"] is not None and row["latency_ns"] < 10**12:
            found[row["api_key"]] = max(found.get(row["api_key"], 0), row["latency_ns"])
    assert found.keys() == slowest.keys()
    assert all(found[api] >= slowest[api] / 1.13 for api in slowest)  # one of the highest cell


def test_every_error_of_every_api_is_among_them(made):
    tables, _, _, partial = made
    pairs = {
        (row["api_key"], row["error_code"]) for row in tables["exchanges"].to_pylist() if row["error_code"]
    }
    found = {
        (row["api_key"], row["error_code"]) for row in rows(partial, EXAMPLES_BY_ERROR) if row["error_code"]
    }
    assert found == pairs


def test_partitions_are_those_of_the_exchange(made):
    tables, _, _, partial = made
    expected = {}
    for row in tables["partitions"].to_pylist():
        expected.setdefault(key(row), []).append([row[name] for name in PARTITION_FIELDS])
    some = 0
    for row in rows(partial, EXAMPLES_BY_CONNECTION):
        listed = json.loads(row["partitions"]) if row["partitions"] else []
        known = expected.get(key(row), [])
        assert len(listed) == min(len(known), MOST_PARTITIONS)
        assert all(one in known for one in listed)
        some += len(listed)
    assert some > 100


def test_batches_of_any_size_give_the_same(made):
    tables, grid, _, partial = made
    half = tables["exchanges"].num_rows // 2
    names = {
        tuple(pair)
        for pair in zip(
            *(tables["exchanges"][name].to_pylist()[:half] for name in ("connection", "ordinal")), strict=True
        )
    }
    first = np.array(
        [
            tuple(pair) in names
            for pair in zip(
                *(tables["partitions"][name].to_pylist() for name in ("connection", "ordinal")), strict=True
            )
        ]
    )
    parts = [
        tables
        | {
            "exchanges": tables["exchanges"].slice(*span),
            "partitions": tables["partitions"].filter(pa.array(mask)),
        }
        for span, mask in (((0, half), first), ((half, None), ~first))
    ]
    merged = merge(summarise(one, grid) for one in parts)
    for part in (EXAMPLES_BY_LATENCY, EXAMPLES_BY_ERROR):
        order = [(name, "ascending") for name, _ in part.keys]
        columns = [name for name in part.schema.names if name != "partitions"]
        assert (
            merged.table(part)
            .sort_by(order)
            .select(columns)
            .equals(partial.table(part).sort_by(order).select(columns))
        )


def test_they_have_the_columns_of_exchanges() -> None:
    for part in EXAMPLE_TABLES.values():
        names = part.schema.names
        assert len(names) == len(set(names))
        assert set(EXCHANGES.names) <= set(names)
        assert 0 < part.most <= 3000
