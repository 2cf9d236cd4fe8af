"""`replay.handlers.transactions`, against a target on paper."""

from __future__ import annotations

from kdissect.protocol.error_codes import ErrorCode
from tests.helpers.paper_cluster import (
    ADD,
    END,
    INIT,
    PRODUCE,
    Cluster,
    batch,
    in_order,
    orders,
    produce,
    took,
    transaction,
)
from tests.helpers.paper_target import MS, replay


def test_a_transaction_keeps_its_order_across_connections() -> None:
    done = replay(transaction(1), Cluster(), target=orders(), delay_ns=25 * MS)
    assert in_order(done) == [INIT, ADD, PRODUCE, PRODUCE, END]
    ended = done.sent(END)[0]
    assert ended[0] >= max(time for time, _, _ in done.sent(PRODUCE)) + 25 * MS
    assert (ended[2]["transactional_id"], ended[2]["producer_id"], ended[2]["producer_epoch"]) == (
        "t-bank",
        5000,
        0,
    )
    assert not done.context.transactions.open


def test_the_second_generation_on_a_target_of_the_first() -> None:
    first = orders()
    first.features["transaction.version"] = 1
    done = replay(transaction(2), Cluster(), target=first)
    assert sorted(in_order(done)) == sorted([INIT, ADD, PRODUCE, ADD, PRODUCE, END])
    assert {version for _, version, _ in done.sent(PRODUCE)} == {11}
    assert [version for _, version, _ in done.sent(END)] == [4]
    second = replay(transaction(2), Cluster(), target=orders())
    assert in_order(second) == [INIT, PRODUCE, PRODUCE, END]
    assert {version for _, version, _ in second.sent(PRODUCE)} == {12}


def test_what_is_still_ending_is_asked_again() -> None:
    done = replay(transaction(1), Cluster(key24=[51, 51, 0], key0=[19, 0, 0]), target=orders())
    assert in_order(done).count(ADD) == 3
    assert in_order(done).count(PRODUCE) == 3
    assert done.buckets() == {"answered": 5}
    assert (done.context.notes.counts["asked again"], done.context.notes.counts["sent again"]) == (2, 1)
    first, second, third = (time for time, _, _ in done.sent(ADD))
    assert 5 * MS <= second - first <= 10 * MS <= third - second <= 15 * MS
    refused, _, again = (time for time, _, _ in done.sent(PRODUCE))
    assert 5 * MS <= again - refused <= 10 * MS


def test_a_transaction_that_was_ending_in_the_capture_too_is_waited_for() -> None:
    script = transaction(2)
    script.requests.pop()
    body = produce(batch(1), transaction="bank")
    script.add(40, PRODUCE, 12, body, took(51), connection=1)
    script.add(60, PRODUCE, 12, body, took(0), connection=1)
    done = replay(script, Cluster(key0=[0, 0, 19, 0]), target=orders())
    assert done.buckets() == {"answered": 4, "retry": 1}
    assert done.context.notes.counts["sent again"] == 1


def test_an_open_transaction_is_aborted_at_the_end() -> None:
    script = transaction(1)
    script.requests.pop()
    done = replay(script, Cluster(), target=orders())
    ((_, _, body),) = done.sent(END)
    assert (body["transactional_id"], body["committed"]) == ("t-bank", False)
    assert done.context.notes.counts["transactions aborted at the end"] == 1


def test_a_transaction_of_which_the_target_took_nothing_is_not_left_open() -> None:
    script = transaction(1)
    script.requests.pop()
    done = replay(script, Cluster(key26=[ErrorCode.INVALID_TXN_STATE]), target=orders())
    assert len(done.sent(END)) == 1
    assert done.context.transactions.open == {}
    assert done.context.notes.counts["transactions aborted at the end"] == 0
