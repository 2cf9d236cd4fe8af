"""The examples of the page: errors first, each once, as many as fit, with numbers that the page knows."""

from typing import Any

from kdissect.report.build.page.example_panel import COLUMNS, list_examples
from kdissect.report.build.page.page_data import make_page_data
from kdissect.report.build.page.page_names import PageNames
from kdissect.report.query.connection_facts import read_connection_facts
from tests.report.random_page import random_page

TABLES, GRID, SUMMARY, PARTIAL = random_page(exchanges=800)


def listed(most: int = 10**7) -> list[dict[str, Any]]:
    names = PageNames(SUMMARY, PARTIAL, read_connection_facts(PARTIAL), GRID.start_ns)
    found = list_examples(names, most)
    rows = []
    for *values, rare in found["rows"]:
        row = dict(zip(COLUMNS, values, strict=True)) | rare
        rows.append(row | {"connection": found["connections"][row["connection"]][0]})
    return rows


def test_each_exchange_is_there_once() -> None:
    keys = [(row["connection"], row["ordinal"], row["request"], row["response"]) for row in listed()]
    assert len(keys) == len(set(keys)) > 500


def test_few_of_them_are_those_with_errors() -> None:
    few = listed(5_000)
    assert 5 < len(few) < 100
    assert all(row.get("error_code") or row.get("status") == "unanswered" for row in few)


def test_their_packets_and_times_are_those_of_the_table() -> None:
    files = make_page_data(SUMMARY, PARTIAL, GRID)["capture"]["files"]
    exchanges = {
        (row["connection"], row["ordinal"]): row
        for row in TABLES["exchanges"].to_pylist()
        if row["ordinal"] is not None
    }
    checked = 0
    for row in listed():
        exchange = exchanges.get((row["connection"], row["ordinal"]))
        if exchange is None or row["request"] is None:
            continue
        packet, file = divmod(row["request"], len(files))
        assert (packet, files[file]) == (exchange["request_packet"], exchange["capture_file"])
        assert row["request_first_ns"] == exchange["request_first_ns"] - GRID.start_ns
        if exchange["response_first_ns"] is not None:
            assert row["response_first_ns"] == exchange["response_first_ns"] - exchange["request_first_ns"]
        checked += 1
    assert checked > 300
