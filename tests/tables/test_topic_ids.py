"""Topic ids and nodes of a recorded capture have the names and addresses that its messages tell."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from kdissect.tables.schemas import NAMES
from kdissect.tables.topic_ids import KNOWN_NAMES, _distinct, _first_of_equal
from kdissect.text import parse_uuid
from tests.helpers import recorded

NAME = "refusals.pcapng"


def test_every_id_without_a_name_is_named_somewhere() -> None:
    names = {row["topic_id"]: row["topic"] for row in recorded.rows(NAME, "names")}
    rows = recorded.rows(NAME, "partitions")
    assert names.keys() >= {row["topic_id"] for row in rows if row["topic"] is None and row["topic_id"]}
    both = {(row["topic_id"], row["topic"]) for row in rows if row["topic"] and row["topic_id"]}
    assert both
    assert all(names[topic_id] == topic for topic_id, topic in both)


def test_the_topic_of_the_cluster_metadata_is_known_beforehand() -> None:
    (row,) = KNOWN_NAMES.to_pylist()
    assert parse_uuid(row["topic_id"]) == bytes(15) + b"\x01"
    assert row["topic"] == "__cluster_metadata"


def test_nodes_have_hosts_and_ports() -> None:
    nodes = recorded.rows(NAME, "brokers")
    assert nodes
    assert all(row["node_id"] >= 0 and row["host"] and 0 < row["port"] < 1 << 16 for row in nodes)


@given(st.lists(st.tuples(st.integers(-1, 3), st.sampled_from([0, 5, 1 << 40]), st.integers(0, 9000))))
def test_the_first_of_equal_rows_stay(rows: list[tuple[int, int, int]]) -> None:
    columns = [np.array(column, np.int64) for column in zip(*rows, strict=True)] or [np.zeros(0, np.int64)]
    assert _first_of_equal(*columns).tolist() == [
        place for place, row in enumerate(rows) if row not in rows[:place]
    ]


def test_texts_that_became_equal_stay_once() -> None:
    rows = pa.record_batch(
        [["one", "two", "one", None], ["\ufffd", "\ufffd", "\ufffd", "\ufffd"]], schema=NAMES
    )
    assert _distinct(rows).to_pylist() == rows.to_pylist()[:2] + rows.to_pylist()[3:]
