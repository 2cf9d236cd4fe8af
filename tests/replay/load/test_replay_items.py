"""`replay.load.replay_items`: items of requests that are refused, and those that are sent."""

from __future__ import annotations

from array import array

from kdissect.replay.load.replay_items import (
    ReplayItem,
    ReplayItems,
    index_reader,
    request_column,
    request_columns,
    sent_mask,
)
from kdissect.replay.load.request_table import READERS, Chosen, RequestTable
from tests.helpers.paper_target import Script


def test_no_request_has_no_items() -> None:
    items = ReplayItems(RequestTable())
    assert (len(items), list(items), sent_mask(items).tolist()) == (0, [], [])
    assert items.column("key").tolist() == []


def test_columns_and_indices_are_the_same_of_any_items() -> None:
    script, table = Script(), RequestTable()
    for number in range(40):
        script.add(number, 3, 9, {"topics": None}, {} if number % 3 else None, connection=number % 4)
    for request in script.requests:
        table.append(request)
    every = ReplayItems(table)
    every.make_room()
    places = array("i", [3, 4, 11, 30, 39])
    listed = [ReplayItem(script.requests[place], "client") for place in places]
    names = [*READERS, "index"]
    for first, stop in ((0, 5), (1, 3), (4, 9), (5, 9)):
        expected = [request_column(listed, name, first, stop).tolist() for name in names]
        for items in (Chosen(every, places), listed):
            found = request_columns(items, names, first, stop)
            assert [each.tolist() for each in found] == expected
    assert request_columns(every, names, 30, 99)[-1].tolist() == list(range(30, 40))
    assert [index_reader(Chosen(every, places))(place) for place in range(5)] == list(places)
    assert [index_reader(listed)(place) for place in range(5)] == list(places)
    assert index_reader(every)(7) == 7
