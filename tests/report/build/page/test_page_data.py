"""The data of the page against plain loops over rows and against what brokers logged."""

import numpy as np
import pytest

from kdissect.report.build.build_report import build_report
from kdissect.report.build.page.page_data import make_page_data
from kdissect.report.partials import (
    summarise,
)
from kdissect.report.timeline.grid import Grid
from kdissect.report.timeline.timeline_tables import TIMELINE_TABLES
from kdissect.tables.schemas import ENDS
from tests.helpers import paper_capture, recorded
from tests.report.random_page import pivot_sums, random_page


@pytest.fixture(scope="module")
def whole():
    tables, grid, summary, partial = random_page()
    return tables, grid, make_page_data(summary, partial, grid)


def test_packets_lead_back_to_their_exchanges(whole):
    tables, grid, data = whole
    by_packet = {
        (row["capture_file"], row["request_packet"] or row["response_packet"]): row
        for row in tables["exchanges"].to_pylist()
    }
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


def test_the_handmade_capture():
    tables = paper_capture.tables()
    tables |= {"ends": tables["connections"].select(ENDS.names)}
    grid = Grid(paper_capture.T, 100_000_000, 20)
    partial = summarise(tables, grid)
    data = make_page_data(build_report(partial, paper_capture.CAPTURE), partial, grid)
    orders, billing = (
        {row["id"]: at for at, row in enumerate(data["clients"])}[name] for name in ("orders-app", "billing")
    )
    assert pivot_sums(data, client=orders)["exchanges"] == 5
    assert pivot_sums(data, client=orders)["latency_ns"] == 6 * paper_capture.MS
    assert pivot_sums(data, client=orders)["unanswered"] == 1
    assert pivot_sums(data, client=orders)["throttle_ms"] == 200
    assert pivot_sums(data, client=billing)["timed"] == 2  # one of three answers came before its request
    steps = {
        step
        for slot, _, _, steps in data["pivot"]["series"]
        for step, _, _ in steps
        if data["pivot"]["slots"][slot][0] == orders
    }
    assert steps == {0, 1, 2, 3, 4}
    assert [row[:3] + row[6:] for row in data["failures"]] == [
        [1, 0, 6, 1, 12]
    ]  # step, API, code, exchanges, packet
    connection = next(row for row in data["connections"]["rows"] if row["client_port"] == 40001)
    assert (connection["server_rtt_ns"], connection["client_rtt_ns"]) == (200_000, 50_000)


def test_without_a_grid_nothing_of_the_course_is_counted():
    _, batches = recorded.dissected("rebalances.pcapng")
    for batch in batches:
        assert not summarise(batch).tables.keys() & TIMELINE_TABLES.keys()
