"""Numbers for what the page names, the heaviest first, and -1 for all that are not singled out."""

from dataclasses import replace

import pyarrow as pa
import pytest

from kdissect.report.aggregate.grouping import TableColumns
from kdissect.report.aggregate.partial_tables import CALLS
from kdissect.report.build.build_report import build_report
from kdissect.report.build.page.page_names import (
    NO_REF,
    NOT_SINGLED_OUT,
    NumberedGroups,
    PageNames,
    plain_figures,
    plain_latency,
    sorted_columns,
)
from kdissect.report.model.summary import CaptureFacts
from kdissect.report.partials import EMPTY, summarise
from kdissect.report.query.connection_facts import read_connection_facts
from tests.helpers.paper_capture import MS, T
from tests.helpers.report_rows import PRODUCE, connection, exchange_of, tables


@pytest.fixture(scope="module")
def names(partial, summary):
    return PageNames(summary, partial, read_connection_facts(partial), T)


def test_the_heaviest_have_the_lowest_numbers(names):
    assert names.clients.keys == [("orders-app", "10.1.0.1"), ("billing", "10.1.0.2")]
    assert [names.api(key) for key in (0, 3, 1, 99)] == [0, 1, 2, NOT_SINGLED_OUT]
    assert names.client("billing", "10.1.0.2") == 1
    assert names.client("billing", "10.1.0.1") == NOT_SINGLED_OUT


def test_times_count_from_the_first_step(names):
    assert (names.since(T + 5), names.since(T), names.since(None)) == (5, 0, None)


def test_a_packet_is_one_number_with_its_file(names):
    several = PageNames(
        replace(names.summary, capture=replace(names.summary.capture, files=("a", "b", "c"))),
        names.partial,
        names.facts,
        T,
    )
    assert [several.packet_ref(file, 7) for file in ("a", "b", "c")] == [21, 22, 23]
    assert several.packet_ref("b", None, 5) == 16
    assert [several.packet_ref(*what) for what in (("a", None), (None, 7), ("other", 7))] == [None] * 3
    places = [("a", None), (None, 7), ("other", 7), ("b", 7), ("c", 9)]
    columns = TableColumns(
        pa.table(
            {
                "capture_file": [file for file, _ in places],
                "request_packet": pa.array([None] * len(places), pa.int64()),
                "response_packet": pa.array([packet for _, packet in places], pa.int64()),
            }
        )
    )
    alone = [NO_REF if ref is None else ref for ref in map(several.packet_ref, *zip(*places, strict=True))]
    assert several.packet_refs(columns).tolist() == alone
    assert names.row_ref({"capture_file": "shop.pcapng", "request_packet": None, "response_packet": 9}) == 9


def test_a_location_has_numbers_in_place_of_names(names):
    (error,) = names.summary.errors
    found = names.location(error.first)
    assert (found["at"], found["request"], found["response"]) == (103 * MS, 12, 13)
    assert (found["client"], found["broker"], found["connection"]) == (0, 0, 0)
    assert (found["topic"], found["partition"]) == ("orders", 0)
    assert names.location(None) is None


def test_a_connection_may_have_the_number_zero():
    partial = summarise(tables([exchange_of(0, 0, PRODUCE, 0)], [], [connection(0)]))
    names = PageNames(build_report(partial, CaptureFacts()), partial, read_connection_facts(partial), T)
    assert [names.connection(number) for number in (0, 5, None)] == [0, NOT_SINGLED_OUT, NOT_SINGLED_OUT]


def test_groups_beyond_the_limit_are_counted(names):
    groups = NumberedGroups(names.calls, ("client_id",), (), 1)
    assert (groups.keys, groups.omitted) == ([("orders-app",)], 1)
    (row,) = groups.rows(("id",))
    assert (row["id"], row["connections"], row["all"]["n"]) == ("orders-app", 1, 5)


def test_figures_of_the_page(summary):
    figures = plain_figures(summary.totals)
    assert (figures["n"], figures["timed"], figures["lossy"]) == (9, 4, 4)
    assert (figures["service"]["sum"], figures["idle"]["n"]) == (6_500_000, 1)
    assert plain_latency(None) is None


def test_rows_of_a_table_have_a_fixed_order(partial):
    columns = sorted_columns(partial, CALLS)
    assert columns.ints("connection").tolist() == sorted(columns.ints("connection").tolist())
    assert sorted_columns(EMPTY, CALLS).rows == 0
