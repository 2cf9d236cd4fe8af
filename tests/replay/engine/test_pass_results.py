"""Results as rows of numbers: nothing of them is lost, and those of several processes are merged."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from kdissect.replay.disposition import Disposition
from kdissect.replay.effects import Answer, Part
from kdissect.replay.engine import pass_results
from kdissect.replay.engine.pass_results import (
    PassOutcome,
    RequestResult,
    ResultTable,
    disposition_of,
    merge_outcomes,
    result_of,
)
from kdissect.replay.load.spool import SpoolSlot


def test_results_are_kept_to_the_last_field() -> None:
    kept = [
        RequestResult(
            3,
            Disposition.ANSWERED,
            "",
            5,
            6,
            9,
            "self",
            2,
            9,
            2,
            100,
            7,
            1,
            ((9, SpoolSlot(10, 20)), (9, SpoolSlot(30, 4))),
        ),
        RequestResult(1, Disposition.POLICY, "not chosen by topic"),
        RequestResult(2, Disposition.NO_ANSWER_DUE, "", 0, 0, None, "", 1, 3, 1, 50),
    ]
    results = ResultTable()
    for each in kept:
        results.append(each)
    assert list(results) == kept
    assert len(results) == 3
    assert [results.ending(number) for number in results.in_order()] == [
        (each.index, each.bucket, each.reason) for each in sorted(kept, key=lambda each: each.index)
    ]
    assert results[1] == kept[1]
    results.append_skipped(4, Disposition.RETRY, "taken")
    assert results[3] == RequestResult(4, Disposition.RETRY, "taken")
    other = ResultTable()
    other.append(RequestResult(9, Disposition.POLICY, "another reason"))
    other.extend(results, 0)
    assert list(other)[1:] == list(results)
    ended = PassOutcome(results, counts=Counter(split=2), stopped="why", peak_connections=4)
    ended.topic_names[b"id"] = "made"  # by the run, in that process
    whole = merge_outcomes([PassOutcome(topic_names={b"older": "orders"}), ended])
    assert whole.topic_names == {b"older": "orders", b"id": "made"}
    assert [each.spool for each in whole.results] == [1, 1, 1, 1]
    assert (whole.counts["split"], whole.stopped, whole.peak_connections) == (2, "why", 4)


def test_one_answer_is_kept_as_any_result_is() -> None:
    answer = Answer(Part(3, 9, {}, node=2), Disposition.ANSWERED, b"frame", 7, 11, 2, 30, "throttle")
    answer.throttle_ms = 4
    results = ResultTable()
    results.append_answered(5, 6, "throttle", answer, 100)
    expected = result_of(5, [answer], lambda frame: SpoolSlot(100, len(frame)))
    expected.due_ns, expected.cause = 6, "throttle"
    assert list(results) == [expected]


def test_results_after_a_number_have_all_that_belongs_to_them() -> None:
    results = ResultTable()
    slots = ((9, SpoolSlot(0, 1)), (9, SpoolSlot(1, 1)))
    for index in range(3):
        results.append(RequestResult(index, Disposition.ANSWERED, cause=f"cause {index}", answers=slots))
    assert results.since(2).indices() == [2]
    assert list(results.since(1)) == list(results)[1:]


@pytest.mark.parametrize(
    ("ends", "disposition"),
    [
        ([Disposition.ANSWERED, Disposition.TIMED_OUT], Disposition.TIMED_OUT),
        ([Disposition.CLOSED, Disposition.FAILED_TO_SEND], Disposition.CLOSED),
        ([Disposition.ANSWERED, Disposition.ANSWERED], Disposition.ANSWERED),
        ([], Disposition.FAILED_TO_SEND),
    ],
)
def test_a_request_ends_as_the_worst_of_its_parts(ends: list[Disposition], disposition: Disposition) -> None:
    assert disposition_of([Answer(Part(0, 9, {}), end) for end in ends]) is disposition


def test_many_skipped_requests_are_added_and_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pass_results, "ROWS_AT_ONCE", 2)
    together, each = ResultTable(), ResultTable()
    indices = [5, 1, 3, 0, 2]
    together.append_all_skipped(np.array(indices), Disposition.RETRY, "taken")
    for index in indices:
        each.append_skipped(index, Disposition.RETRY, "taken")
    assert list(together) == list(each)
    together.append(RequestResult(4, Disposition.ANSWERED, sent_ns=3))
    together.append_skipped(6, Disposition.RETRY, "other")
    keys = np.array([0, 1, 0, 1, 0, 1, 1])
    assert together.counted(np.ones(len(together), bool), keys) == [
        ((0, Disposition.RETRY, "taken"), 2),
        ((1, Disposition.RETRY, "taken"), 3),
        ((0, Disposition.ANSWERED, ""), 1),
        ((1, Disposition.RETRY, "other"), 1),
    ]
    some = np.array([True, True, False, False, False, True, False])
    assert together.counted(some, keys) == [
        ((1, Disposition.RETRY, "taken"), 2),
        ((0, Disposition.ANSWERED, ""), 1),
    ]
    assert together.in_order().tolist() == [3, 1, 4, 2, 5, 0, 6]
    assert together.ended_as(Disposition.ANSWERED).tolist() == [False] * 5 + [True, False]
    assert together.sent_ns().tolist() == [3]
