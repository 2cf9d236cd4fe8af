"""The pivot of the page adds up to the rows of the capture, in whatever detail fits."""

import json
from collections import defaultdict

import pytest

from kdissect.report.build.page import pivot
from kdissect.report.build.page.page_data import make_page_data
from kdissect.report.build.page.size_budget import (
    json_size,
)
from tests.report import plain_report as oracle
from tests.report.random_page import pivot_sums, random_page


@pytest.fixture(scope="module")
def whole():
    tables, grid, summary, partial = random_page()
    return tables, grid, make_page_data(summary, partial, grid)


def test_the_pivot_adds_up_to_the_rows_of_each_client_and_broker(whole):
    tables, _, data = whole
    connections = {row["connection"]: row for row in tables["connections"].to_pylist()}
    expected = defaultdict(lambda: defaultdict(int))
    for row in tables["exchanges"].to_pylist():
        connection = connections[row["connection"]]
        who = oracle.client_of(row, connection)
        sums = expected[(who[0], who[3]), (connection["server_host"], connection["server_port"])]
        sums["exchanges"] += 1
        sums["timed"] += oracle.sound(row)
        sums["latency_ns"] += oracle.counted_ns(row) if oracle.sound(row) else 0
        sums["error_responses"] += (row["error_code"] or 0) != 0
        sums["request_bytes"] += row["request_bytes"] or 0
    clients = {(row["id"], row["host"]): at for at, row in enumerate(data["clients"])}
    brokers = {(row["host"], row["port"]): at for at, row in enumerate(data["brokers"])}
    assert expected
    for (who, server), sums in expected.items():
        found = pivot_sums(data, clients[who], brokers[server])
        assert {name: found[name] for name in sums} == dict(sums)
    assert all(data["pivot"]["whole"]["clients"])


@pytest.mark.parametrize("most", [60_000, 30_000, 3_000])
def test_folding_keeps_every_sum_and_says_who_is_no_longer_whole(whole, monkeypatch, most):
    _, grid, full = whole
    _, _, summary, partial = random_page()
    monkeypatch.setattr(pivot, "MOST_CHARACTERS", most)
    data = make_page_data(summary, partial, grid)
    assert len(json.dumps(data["pivot"]["series"], separators=(",", ":"))) < max(most, 25_000)
    assert pivot_sums(data) == pivot_sums(full)
    for at, is_whole in enumerate(data["pivot"]["whole"]["clients"]):
        assert not is_whole or pivot_sums(data, client=at) == pivot_sums(full, client=at)
    assert all(client in range(-1, len(data["clients"])) for client, _, _ in data["pivot"]["slots"])


def of_topics(data):
    """Add up the exchanges of each topic in the pivot of topics."""
    pivot, found = data["topic_pivot"], defaultdict(int)
    for slot, _, _, steps in pivot["series"]:
        found[pivot["slots"][slot][2]] += sum(sums[0] for _, sums, _ in steps)
    return found


@pytest.mark.parametrize("most", [60_000, 40_000, 10])
def test_a_topic_that_is_told_whole_is_whole_however_much_was_folded(whole, monkeypatch, most):
    _, grid, full = whole
    _, _, summary, partial = random_page()
    monkeypatch.setattr(pivot, "MOST_FOR_TOPICS", most)
    data = make_page_data(summary, partial, grid)
    assert json_size(data["topic_pivot"]["series"]) <= most
    told = data["topic_pivot"]["whole"]
    assert all(of_topics(data)[at] == of_topics(full)[at] for at, is_whole in enumerate(told) if is_whole)
    assert len(told) == len(data["topics"])
    assert (sum(told) == 0) == (most == 10)
