"""The data of the page against plain loops over rows and against what brokers logged; the page itself as text."""

import base64
import hashlib
import json
import re
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from kdissect.report.build.page import page_data as document_module
from kdissect.report.build.page import pivot
from kdissect.report.build.page.page_data import make_page_data
from kdissect.report.build.page.size_budget import (
    fitting_rows,
    json_size,
    shorten,
)
from kdissect.report.build.report import build_report
from kdissect.report.model.summary import CaptureFacts
from kdissect.report.partials import (
    EMPTY,
    merge,
    summarise,
)
from kdissect.report.render.html.page import render_page
from kdissect.report.timeline.grid import Grid, grid_over
from kdissect.report.timeline.timeline_tables import TIMELINE_TABLES
from kdissect.tables.anonymize import Pseudonyms
from kdissect.tables.schemas import ENDS
from tests.helpers import recorded
from tests.helpers import synthetic_tables as synthetic
from tests.report import paper_capture as handmade
from tests.report import plain_report as oracle

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\u2028&amp;%%script%%"


def random_page(seed=1, exchanges=2000):
    """Give random tables with their grid, summary and partial."""
    tables = synthetic.tables(np.random.default_rng(seed), exchanges)
    tables |= {"ends": tables["connections"].select(ENDS.names)}
    times = tables["exchanges"]["request_first_ns"].drop_null().to_numpy()
    grid = grid_over(int(times.min()), int(times.max()) + 10**9)
    partial = summarise(tables, grid)
    facts = CaptureFacts(
        files=("a.pcap", "b.pcapng"), first_time_ns=int(times.min()), last_time_ns=int(times.max())
    )
    return tables, grid, build_report(partial, facts), partial


@pytest.fixture(scope="module")
def whole():
    tables, grid, summary, partial = random_page()
    return tables, grid, make_page_data(summary, partial, grid)


def told(data, client=None, broker=None):
    """Add the pivot up for one client and broker."""
    sums = [0] * len(data["pivot"]["sums"])
    timed = 0
    for slot, _, _, steps in data["pivot"]["series"]:
        of_client, of_broker, _ = data["pivot"]["slots"][slot]
        if client in (None, of_client) and broker in (None, of_broker):
            for _, some, cells in steps:
                for at, value in enumerate(some):
                    sums[at] = max(sums[at], value) if at == pivot.LARGEST else sums[at] + value
                timed += sum(
                    number for cell, number in zip(cells[::3], cells[1::3], strict=True) if cell >= 0
                )
    return dict(zip(data["pivot"]["sums"], sums, strict=True)) | {"timed": timed}


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
        sums["latency_ns"] += row["latency_ns"] if oracle.sound(row) else 0
        sums["error_responses"] += (row["error_code"] or 0) != 0
        sums["request_bytes"] += row["request_bytes"] or 0
    clients = {(row["id"], row["host"]): at for at, row in enumerate(data["clients"])}
    brokers = {(row["host"], row["port"]): at for at, row in enumerate(data["brokers"])}
    assert expected
    for (who, server), sums in expected.items():
        found = told(data, clients[who], brokers[server])
        assert {name: found[name] for name in sums} == dict(sums)
    assert all(data["pivot"]["whole"]["clients"])


def test_packets_lead_back_to_their_exchanges(whole):
    tables, grid, data = whole
    by_packet = {(row["capture_file"], row["request_packet"] or row["response_packet"]): row for row in tables["exchanges"].to_pylist()}  # fmt: skip
    files = data["capture"]["files"]
    seen = 0
    for _, api, _, steps in data["pivot"]["series"]:
        for step, _, cells in steps:
            for ref in cells[2::3]:
                row = by_packet[files[ref % len(files)], ref // len(files)]
                assert row["api_key"] == data["apis"][api]["key"]
                began = (
                    row["response_first_ns"] if row["request_first_ns"] is None else row["request_first_ns"]
                )
                assert grid.steps_of(np.array([began]))[0] == step
                seen += 1
    assert seen > 500


@pytest.mark.parametrize("most", [60_000, 30_000, 3_000])
def test_folding_keeps_every_sum_and_says_who_is_no_longer_whole(whole, monkeypatch, most):
    _, grid, full = whole
    _, _, summary, partial = random_page()
    monkeypatch.setattr(pivot, "MOST_CHARACTERS", most)
    data = make_page_data(summary, partial, grid)
    assert len(json.dumps(data["pivot"]["series"], separators=(",", ":"))) < max(most, 25_000)
    assert told(data) == told(full)
    for at, is_whole in enumerate(data["pivot"]["whole"]["clients"]):
        assert not is_whole or told(data, client=at) == told(full, client=at)
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


def test_names_of_any_length_fit():
    assert shorten({"a": ["x" * 9000]})["a"][0] == "x" * 120 + "…" + "x" * 60
    tables, grid, _, _ = random_page(exchanges=200)
    for name in ("exchanges", "connections"):
        column = pa.array([one and one + "y" * 20_000 for one in tables[name]["client_id"].to_pylist()], pa.string())  # fmt: skip
        at = tables[name].schema.get_field_index("client_id")
        tables[name] = tables[name].set_column(at, "client_id", column)
    partial = summarise(tables, grid)
    page = render_page(make_page_data(build_report(partial, CaptureFacts()), partial, grid))
    assert len(page) < 500_000


def test_every_list_ends_where_its_room_ends(monkeypatch):
    assert fitting_rows([[1], [2, 2], [3]], 10) == [[1], [2, 2]]
    assert fitting_rows(["too long to be kept within ten"] * 2, 10) == ["too long to be kept within ten"]
    full = recorded.data("rebalances.pcapng")
    monkeypatch.setattr(document_module, "MOST_FOR_GROUPS", 1000)
    monkeypatch.setattr(document_module, "PAGE", 100_000)
    monkeypatch.setattr(pivot, "LEAST_CHARACTERS", 10_000)
    data = make_page_data(*recorded.analyzed("rebalances.pcapng"))
    for listed, kept in ((full, 6), (data, 1)):
        assert len(listed["groups"]["rows"]) == kept
        assert listed["groups"]["omitted"] == 6 - kept
    assert json_size(data["pivot"]) < json_size(full["pivot"])


def test_the_handmade_capture():
    tables = handmade.tables()
    tables |= {"ends": tables["connections"].select(ENDS.names)}
    grid = Grid(handmade.T, 100_000_000, 20)
    partial = summarise(tables, grid)
    data = make_page_data(build_report(partial, handmade.CAPTURE), partial, grid)
    orders, billing = (
        {row["id"]: at for at, row in enumerate(data["clients"])}[name] for name in ("orders-app", "billing")
    )
    assert told(data, client=orders)["exchanges"] == 5
    assert told(data, client=orders)["latency_ns"] == 6 * handmade.MS
    assert told(data, client=orders)["unanswered"] == 1
    assert told(data, client=orders)["throttle_ms"] == 200
    assert told(data, client=billing)["timed"] == 2  # one of three answers came before its request
    steps = {step for slot, _, _, steps in data["pivot"]["series"] for step, _, _ in steps if data["pivot"]["slots"][slot][0] == orders}  # fmt: skip
    assert steps == {0, 1, 2, 3, 4}
    assert [row[:3] + row[6:] for row in data["failures"]] == [
        [1, 0, 6, 1, 12]
    ]  # step, API, code, exchanges, packet
    connection = next(row for row in data["connections"]["rows"] if row["client_port"] == 40001)
    assert (connection["server_rtt_ns"], connection["client_rtt_ns"]) == (200_000, 50_000)


def test_rebalances_as_they_were_made():
    """The scenario: each group's members join one by one, one leaves and comes back as another, one is killed (see the manifest)."""
    groups = {row["name"]: row for row in recorded.data("rebalances.pcapng")["groups"]["rows"]}
    for name in ("cooperative-java", "eager-python", "eager-aio", "eager-rdkafka"):
        group = groups[name]
        assert group["kind"] == "classic"
        assert [one["generation"] for one in group["rebalances"]] == list(
            range(1, len(group["rebalances"]) + 1)
        )
        assert len(group["members"]) == 4
        ends = [member["end"] for member in group["members"]]
        assert ends.count("gone") == 1  # the one that was killed
        assert ends.count("left") == 3
        gone = next(member for member in group["members"] if member["end"] == "gone")
        assert any(gone["id"] in one["gone"] for one in group["rebalances"])
        for one in group["rebalances"]:
            assert one["complete"]
            assert 0 < one["end"] - one["start"] < 3 * 10**9
    for name in ("new-java", "new-rdkafka"):
        assert groups[name]["kind"] == "consumer (KIP-848)"
        assert len(groups[name]["members"]) == 4
        assert [member["end"] for member in groups[name]["members"]].count("gone") == 1


def test_lag_ends_where_the_consumers_read_everything():
    """96 jobs were written and every group read all of them before it ended."""
    groups = recorded.data("rebalances.pcapng")["groups"]["rows"]
    for group in groups:
        (jobs,) = (topic for topic in group["lag"] if topic["topic"] == "jobs")
        assert sum(row["end"] for row in jobs["partitions"]) == 96
        for row in jobs["partitions"]:
            assert row["committed_lag"] == row["end"] - row["committed"] >= 0
        assert max(value for value in jobs["committed"] if value is not None) > 0
        assert jobs["committed"][-1] == sum(row["committed_lag"] for row in jobs["partitions"])
    assert [group["name"] for group in groups if group["lag"][0]["committed"][-1]] == []


def test_transactions_as_the_clients_ended_them():
    data = recorded.data("transactions.pcapng")
    rows = {row["id"]: row for row in data["transactions"]["rows"]}
    assert rows["bank-java"]["outcomes"] == {"commit": 12, "abort": 6, "open": 0}
    for row in rows.values():
        ended = [one for one in row["transactions"] if one["to"] is not None]
        assert all(one["from"] is not None and one["from"] < one["to"] for one in ended)
        assert all(one["to"] <= after["from"] for one, after in pairwise(ended))
    producers = {row["label"]: row for row in data["producers"]["rows"]}
    assert producers["audit-python"]["records"] == 60
    assert all(row["gaps"] == [] for row in producers.values())
    assert producers["bank-java"]["errors"] == 16  # CONCURRENT_TRANSACTIONS, as the brokers' logs say


def test_a_gap_is_told():
    sequences = [(0, 10), (10, 5), (20, 5), (15, 3)]  # 18 and 19 never came
    tables = handmade.tables()
    rows = [
        handmade.exchange(1, at, handmade.PRODUCE, at, 1000, acks=-1, client_id="p")
        for at in range(len(sequences))
    ]
    partitions = [
        {"connection": 1, "ordinal": at, "api_key": 0, "topic": "t", "partition": 3, "error_code": 0, "records": records, "batches": 1,
         "record_bytes": 100, "offset": start, "producer_id": 9, "producer_epoch": 2, "base_sequence": start}
        for at, (start, records) in enumerate(sequences)
    ]  # fmt: skip
    tables |= {
        "exchanges": pa.Table.from_pylist(rows, tables["exchanges"].schema),
        "partitions": pa.Table.from_pylist(partitions, tables["partitions"].schema),
        "ends": tables["connections"].select(ENDS.names),
    }
    partial = summarise(tables, Grid(handmade.T, 10**6, 100))
    data = make_page_data(build_report(partial, handmade.CAPTURE), partial, Grid(handmade.T, 10**6, 100))
    (producer,) = data["producers"]["rows"]
    (gap,) = producer["gaps"]
    assert (gap["topic"], gap["partition"], gap["after"], gap["before"], gap["missing"]) == (
        "t",
        3,
        17,
        20,
        2,
    )
    assert gap["ref"] == rows[2]["request_packet"]
    assert producer["repeated"] == 0


def with_hostile_names(tables):
    """Call a topic what no topic should be called."""
    partitions = tables["partitions"]
    topic = pa.array([HOSTILE if name == "topic-1" else name for name in partitions["topic"].to_pylist()])
    return tables | {
        "partitions": partitions.set_column(partitions.schema.get_field_index("topic"), "topic", topic)
    }


@pytest.fixture(scope="module")
def hostile_page():
    tables, grid, _, _ = random_page()
    tables = with_hostile_names(tables)
    partial = summarise(tables, grid)
    summary = build_report(partial, CaptureFacts(files=("a.pcap", "b.pcapng", HOSTILE)))
    return render_page(make_page_data(summary, partial, grid))


def test_only_the_page_s_own_script_and_style_may_run(hostile_page):
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', hostile_page)[1].replace(
        "&#x27;", "'"
    )
    for kind, tag in (("script-src", "script"), ("style-src", "style")):
        (text,) = re.findall(f"<{tag}>(.*?)</{tag}>", hostile_page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind} 'sha256-{digest}';" in policy
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    assert "http" not in policy


def test_nothing_in_the_page_points_outside(hostile_page):
    addresses = set(re.findall(r"https?://[^\s\"'`<>]+", hostile_page))
    assert addresses <= {"http://www.w3.org/2000/svg"}
    assert not re.search(
        r"<(link|img|iframe|object|embed|script)[^>]*(src|href)=(?!\"data:,\")", hostile_page
    )
    assert not re.search(
        r"\b(fetch|XMLHttpRequest|WebSocket|EventSource|sendBeacon|import)\s*\(", hostile_page
    )
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function", hostile_page
    )


def test_a_hostile_name_cannot_leave_the_data(hostile_page):
    (text,) = re.findall('<script type="application/json" id="data">(.*?)</script>', hostile_page, re.DOTALL)
    assert "<" not in text
    data = json.loads(text)
    assert HOSTILE in [row["name"] for row in data["topics"]]
    assert hostile_page.count("<script") == 2


def test_the_same_captures_give_the_same_page():
    one, other = (render_page(make_page_data(*random_page()[2:], random_page()[1])) for _ in range(2))
    assert one == other


def test_an_empty_capture_has_a_page():
    page = render_page(make_page_data(build_report(EMPTY, CaptureFacts()), EMPTY, grid_over(None, None)))
    assert page.endswith("</html>\n")


def test_small():
    assert len(recorded.page("rebalances.pcapng")) < 600_000


def test_the_same_page_however_the_work_was_divided():
    tables, grid, summary, partial = random_page()
    rng = np.random.default_rng(9)
    dealt = synthetic.in_batches(rng, {name: table for name, table in tables.items() if name != "ends"}, 5)
    parts = [summarise(part | {"ends": tables["ends"]}, grid) for part in dealt]
    merged = merge([merge(parts[3:]), merge(parts[:3])])
    assert render_page(make_page_data(build_report(merged, summary.capture), merged, grid)) == render_page(
        make_page_data(summary, partial, grid)
    )


def test_an_anonymous_page_has_no_name_of_the_capture():
    _, batches = recorded.dissected("rebalances.pcapng")
    _, _, grid = recorded.analyzed("rebalances.pcapng")
    hidden = Pseudonyms.new("key")
    partial = merge(summarise(hidden.tables(batch), grid) for batch in batches)
    facts = recorded.analyzed("rebalances.pcapng")[0].capture
    files = tuple(hidden.name("capture", file) or "" for file in facts.files)
    page = render_page(make_page_data(build_report(partial, replace(facts, files=files)), partial, grid))
    groups = recorded.rows("rebalances.pcapng", "group_events")
    names = {
        row[name] for row in groups for name in ("group_id", "client_id", "member_id", "reason") if row[name]
    }
    assert len(names) > 40
    assert [name for name in names | {"127.0.0.1", "rebalances.pcapng"} if name in page] == []
    assert len(make_page_data(build_report(partial, facts), partial, grid)["groups"]["rows"]) == 6


def test_without_a_grid_nothing_of_the_course_is_counted():
    _, batches = recorded.dissected("rebalances.pcapng")
    for batch in batches:
        assert not summarise(batch).tables.keys() & TIMELINE_TABLES.keys()
