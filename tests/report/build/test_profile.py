"""The profile against figures added up by hand from the tables."""

from collections import defaultdict

import numpy as np
import pyarrow as pa
import pytest

from kdissect.report.build.build_report import build_report
from kdissect.report.model.summary import CaptureFacts, ProfileBy
from kdissect.report.partials import summarise
from tests.helpers import paper_capture
from tests.helpers import synthetic_tables as synthetic


@pytest.fixture(scope="module")
def tables():
    made = dict(synthetic.tables(np.random.default_rng(11), 2000))
    rng = np.random.default_rng(12)
    groups = [
        None if pick == 3 else f"group-{pick}" for pick in rng.integers(0, 4, made["exchanges"].num_rows)
    ]
    exchanges = made["exchanges"]
    made["exchanges"] = exchanges.set_column(
        exchanges.schema.get_field_index("group_id"), "group_id", pa.array(groups, pa.string())
    )
    return made


def added_up(tables, key):
    """Add calls and service time up by a function of an exchange and its connection."""
    connections = {row["connection"]: row for row in tables["connections"].to_pylist()}
    calls, times = defaultdict(int), defaultdict(int)
    for row in tables["exchanges"].to_pylist():
        name = key(row, connections.get(row["connection"], {}))
        calls[name] += 1
        latency = row["latency_ns"]
        if latency is not None and 0 <= latency < 1 << 48 and not row["idle_wait"]:
            times[name] += latency - (row["wait_ns"] or 0)
    return calls, times


KEYS = {
    ProfileBy.API: lambda row, _: row["api_name"],
    ProfileBy.BROKER: lambda _, end: f"{end.get('server_host', '?')}:{end.get('server_port', '?')}",
    ProfileBy.GROUP: lambda row, _: row["group_id"],
    ProfileBy.CONNECTION: lambda row, end: (
        f"{end.get('client_host', '?')}:{end.get('client_port', '?')} > "
        f"{end.get('server_host', '?')}:{end.get('server_port', '?')}"
    ),
}


@pytest.mark.parametrize("by", KEYS)
def test_rows_are_what_the_exchanges_add_up_to_most_time_first(tables, by):
    summary = build_report(summarise(tables), CaptureFacts(), by=by)
    calls, times = added_up(tables, KEYS[by])
    if by is ProfileBy.GROUP:
        calls.pop(None)
    assert {row.label: row.exchanges for row in summary.profile.rows} == dict(calls)
    for row in summary.profile.rows:
        assert (row.service.sum_ns if row.service else 0) == times[row.label]
    order = [times[row.label] for row in summary.profile.rows]
    assert order == sorted(order, reverse=True)
    assert summary.profile.by is by


def test_rows_by_topic_on_paper():
    rows = build_report(
        summarise(paper_capture.tables()), paper_capture.CAPTURE, by=ProfileBy.TOPIC
    ).profile.rows
    assert [(row.label, row.detail, row.exchanges) for row in rows[:2]] == [
        ("orders", "Produce", 3),
        ("orders", "Fetch", 2),
    ]
    assert rows[0].service.sum_ns == 4 * paper_capture.MS
    assert [(row.unanswered, row.throttled, row.doubtful) for row in rows[:2]] == [(1, 1, 0), (0, 0, 2)]


def test_an_old_api_does_not_lend_its_name_to_a_new_one_of_the_same_key():
    """Key 3 was MultiProduce in Kafka 0.7, which has no versions; it is Metadata since."""
    rows = [
        paper_capture.exchange(1, 0, (3, "Metadata", 12), 0, paper_capture.MS),
        paper_capture.exchange(2, 0, (3, "MultiProduce", 0), 1, 2 * paper_capture.MS) | {"api_version": None},
    ]
    tables = {"exchanges": pa.Table.from_pylist(rows, paper_capture.tables()["exchanges"].schema)}
    summary = build_report(summarise(tables), CaptureFacts())
    assert [(row.label, row.exchanges) for row in summary.profile.rows] == [
        ("MultiProduce", 1),
        ("Metadata", 1),
    ]
    assert {(row.api_name, row.api_version) for row in summary.apis} == {
        ("Metadata", 12),
        ("MultiProduce", None),
    }
