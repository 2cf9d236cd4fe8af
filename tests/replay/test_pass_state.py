"""`replay.pass_state`: time, the ends of requests, notes, and reads that wait for writes in the order of
offsets.
"""

from __future__ import annotations

from functools import partial
from random import Random

import numpy as np
import pytest

from kdissect.replay.disposition import Disposition
from kdissect.replay.load.captured_reads import FIRST_INCARNATION, CapturedReads
from kdissect.replay.load.captured_shares import CapturedShares
from kdissect.replay.load.policy import Refusal
from kdissect.replay.load.replay_items import ReplayItem
from kdissect.replay.pass_state import PassNotes, ReadOrder, RequestGates, RequestValues, RunClock, add_values
from kdissect.replay.rewrite.names import Names
from tests.helpers.paper_fetches import fetch
from tests.helpers.paper_target import Script, settings
from tests.helpers.rewriting_cases import WHERE


def item() -> ReplayItem:
    script = Script()
    script.add(0, 3, 9, {"topics": None})
    return ReplayItem(script.requests[0], "client")


def test_a_deadline_counts_from_now() -> None:
    clock = RunClock(lambda: 5, shift_ns=7_999_999)
    assert (clock.deadline_ns(2.0), clock.shift_ms) == (2_000_000_005, 7)


def test_a_gate_opens_when_its_request_ends_and_is_none_afterwards() -> None:
    gates, woken = RequestGates(), list[int]()
    gate = gates.gate(4)
    assert gate is not None
    assert gates.gate(4) is gate
    gate.waiting.append(lambda: woken.append(len(gates)))
    gates.end(4)
    gates.end(5)  # nobody waits for this one
    assert (woken, gates.gate(4), gates.has_ended(4), gates.has_ended(6), len(gates)) == (
        [1],
        None,
        True,
        False,
        2,
    )


def test_many_requests_end_at_once() -> None:
    gates, woken = RequestGates(), list[int]()
    for index in (2, 7):
        gate = gates.gate(index)
        assert gate is not None
        gate.waiting.append(partial(woken.append, index))
    gates.end(0)
    gates.end_all(np.array([1, 2, 9]))
    gates.end_all(np.array([], np.int64))
    assert (len(gates), woken) == (4, [2])
    assert [gates.has_ended(index) for index in (0, 1, 2, 7, 9, 10)] == [True, True, True, False, True, False]
    gates.end(9)  # once more
    assert len(gates) == 4
    assert gates.unended(np.array([9, 7, 1, 20])).tolist() == [7, 20]
    assert gates.unended(np.array([], np.int64)).tolist() == []


def test_values_of_requests_are_as_in_a_dictionary() -> None:
    chance, values, wanted = Random(1), RequestValues[str](), dict[int, str]()
    for _ in range(500):
        index = chance.randrange(60)
        if chance.random() < 0.3:
            assert values.pop(index, None) == wanted.pop(index, None)
        else:
            values[index] = wanted[index] = chance.choice("abc")
        assert len(values) == len(wanted)
    assert (dict(values), values.get(61)) == (wanted, None)
    assert list(values) == sorted(wanted)
    with pytest.raises(KeyError):
        del values[60]


def test_values_of_another_process_are_set_as_one_by_one() -> None:
    own, other = RequestValues[str](), RequestValues[str]()
    add_values(own, other)
    assert len(own) == 0
    own.update({0: "a", 3: "b", 4: "c"})
    other.update({9: "d", 3: "a", 5: "d", 4: "x"})
    del other[4]
    for values in (other, {1: "e", 9: "f"}):
        wanted = dict(own) | dict(values)
        add_values(own, values)
        assert (dict(own), len(own)) == (wanted, len(wanted))


def test_notes_are_kept_by_request_and_can_be_forgotten() -> None:
    notes, request = PassNotes(), item()
    notes.add_split(request, 1)
    assert (notes.by_request, notes.counts["split"]) == ({}, 0)
    notes.add_split(request, 3)
    notes.add(request, "other")
    assert notes.by_request == {0: ("split for 3 leaders", "other")}
    notes.forget(0)
    notes.forget(9)
    assert (notes.by_request, notes.counts["split"]) == ({}, 1)


def test_the_first_missing_write_is_named() -> None:
    captured, gates = CapturedReads(), RequestGates()
    for offset, request in ((10, 2), (0, 1), (20, 3)):
        captured.add_write(WHERE, offset, request)
    captured.finish()
    order = ReadOrder(captured, CapturedShares(), gates)
    assert order.missing_write(WHERE, 0, 9) is None
    assert order.missing_write(WHERE, 20, 9) == 1
    gates.end(2)
    assert order.missing_write(WHERE, 20, 9) == 1
    gates.end(1)
    assert order.missing_write(WHERE, 20, 9) is None
    assert order.missing_write(WHERE, 21, 9) == 3
    assert order.missing_write(("other", 0), 21, 9) is None
    assert captured.first_written(*WHERE) == 0


def test_a_process_waits_for_no_request_of_another_one() -> None:
    gates = RequestGates()
    assert gates.own_gate(7) is gates.gate(7)
    gates.limit_to(np.array([1, 4], np.int64))
    assert [gates.own_gate(index) is None for index in range(6)] == [True, False, True, True, False, True]
    gates.end(4)
    assert gates.own_gate(4) is None


def test_a_topic_that_is_created_again_has_other_offsets() -> None:
    captured, gates, names = CapturedReads(), RequestGates(), Names(settings(), {})
    captured.add_write(WHERE, 0, 1)
    captured.note_deletion(3, {"responses": [{"name": WHERE[0], "error_code": 0}]}, names)
    captured.note_deletion(
        4, {"responses": [{"name": WHERE[0], "error_code": 3}]}, names
    )  # it is gone already
    captured.add_write(WHERE, 0, 5)
    captured.finish()
    order = ReadOrder(captured, CapturedShares(), gates)
    assert [captured.incarnation(WHERE[0], index) for index in (0, 3, 4, 9)] == [
        FIRST_INCARNATION,
        FIRST_INCARNATION,
        3,
        3,
    ]
    assert captured.incarnation("other", 9) == FIRST_INCARNATION
    assert [order.missing_write(WHERE, 1, index) for index in (2, 6)] == [1, 5]
    gates.end(1)
    assert [order.missing_write(WHERE, 1, index) for index in (2, 6)] == [None, 5]
    assert captured.first_written(*WHERE) == 0


def test_the_last_missing_fetch_of_this_process_is_named() -> None:
    script, gates = Script(), RequestGates()
    for at_ms in (0, 1, 2, 3):
        script.add(at_ms, 1, 12, fetch(0, -1, {0: 0}), {"responses": []}, took_ms=5 if at_ms == 3 else 0.5)
    script.add(6, 20, 1, {"topic_names": ["orders"], "timeout_ms": 9}, {"responses": []})
    items = [ReplayItem(request, "client") for request in script.requests]
    items[2].refusal = Refusal(Disposition.POLICY, "excluded by --topic")
    order = ReadOrder(CapturedReads(), CapturedShares(), gates)
    assert order.missing_fetch(items, 4) == 1  # the last one was answered later
    gates.limit_to(np.array([0, 4]))
    assert order.missing_fetch(items, 4) == 0
    gates.end(0)
    assert order.missing_fetch(items, 4) is None
