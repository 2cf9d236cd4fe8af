"""`replay.load.request_table` and `replay_items`: rows give back the objects that they were made of."""

from __future__ import annotations

from array import array
from dataclasses import replace

import numpy as np
import pytest

from kdissect.replay.disposition import Disposition
from kdissect.replay.load import request_table
from kdissect.replay.load.policy import Refusal
from kdissect.replay.load.replay_items import (
    ReplayItem,
    ReplayItems,
    refused_requests,
    request_column,
    sent_mask,
)
from kdissect.replay.load.request_table import DTYPE, ROW, Chosen, Request, RequestTable, numbered
from kdissect.replay.load.spool import SpoolSlot

ANSWERED = Request(
    index=0,
    connection=1 << 50,
    ordinal=3,
    server="10.0.0.1:9092",
    key=1,
    version=12,
    status="answered",
    first_ns=1_700_000_000_000_000_000,
    last_ns=1_700_000_000_000_000_001,
    answered_ns=1_700_000_000_000_000_002,
    in_flight=2,
    complete=True,
    frame=SpoolSlot((3 << 48) + 5, 100),
    response=SpoolSlot(1 << 49, 20),
    response_complete=True,
)
LOST = replace(
    ANSWERED,
    index=1,
    server="10.0.0.2:9092",
    key=0,
    version=None,
    status="unanswered",
    last_ns=None,
    answered_ns=None,
    complete=False,
    response=None,
    response_complete=False,
    excluded_by="--topic",
)


def table() -> RequestTable:
    made = RequestTable()
    for request in (ANSWERED, LOST):
        made.append(request)
    return made


def test_rows_give_requests_back() -> None:
    made = table()
    assert DTYPE.itemsize == ROW.size
    assert (list(made), made[0], made[-1], made[1:]) == ([ANSWERED, LOST], ANSWERED, LOST, [LOST])
    assert made.column("frame_size").tolist() == [100, 100]
    assert made.selected_keys() == {1}
    with pytest.raises(IndexError):
        made[2]


def test_values_are_numbered_as_a_sort_of_all_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_table, "ROWS_AT_ONCE", 4)
    for size in (0, 1, 4, 23):
        values = np.random.default_rng(size).integers(0, 9, size) << 40
        distinct, numbers = numbered(values)
        wanted, places = np.unique(values, return_inverse=True)
        assert (distinct.tolist(), numbers.tolist()) == (wanted.tolist(), places.tolist())


def test_items_keep_what_is_noted_later() -> None:
    items = ReplayItems(table())
    refusal = Refusal(Disposition.POLICY, "off")
    made = [ReplayItem(ANSWERED, "client", transaction="t", error=-1), ReplayItem(LOST, None)]
    items.make_room()
    for item in made:
        items.put(item)
    assert list(items) == made
    items.refuse(1, refusal)
    assert (items[1].refusal, items[0].anchor, items[0].gap_ns) == (refusal, -1, 0)
    assert items.transactional_ids() == {"t"}
    items.copy(np.array([1]), np.array([0]))
    assert items[1] == replace(items[0], request=LOST)
    items.set_anchors(np.array([7, -1]), np.array([900, 0]))
    assert [(item.anchor, item.gap_ns) for item in items] == [(7, 900), (-1, 0)]


def test_columns_are_those_of_the_objects() -> None:
    items = ReplayItems(table())
    items.make_room()
    items.put(ReplayItem(ANSWERED, "client"))
    items.put(ReplayItem(LOST, None, Refusal(Disposition.POLICY, "off")))
    some = Chosen(items, array("q", [1, 0, 1]))
    for each in (items, some, list(some), some[1:]):
        refused = {item.request.index for item in each if item.refusal is not None}
        found = list(refused_requests(each))
        assert {index for indices, _ in found for index in indices.tolist()} == refused
        assert {why.reason for _, why in found} == {"off"}
        assert sent_mask(each).tolist() == [item.refusal is None for item in each]
        assert request_column(each, "key").tolist() == [item.request.key for item in each]
        assert request_column(each, "index").tolist() == [item.request.index for item in each]
        assert request_column(each, "answered_ns").tolist() == [
            -1 if item.request.answered_ns is None else item.request.answered_ns for item in each
        ]
