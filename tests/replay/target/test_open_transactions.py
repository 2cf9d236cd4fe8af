"""`replay.target.open_transactions`: what is open, and what waits for what."""

from __future__ import annotations

from kdissect.replay.load.replay_items import ReplayItem
from kdissect.replay.pass_state import RequestGates
from kdissect.replay.target.open_transactions import Transactions
from kdissect.replay.target.producers import ProducerIdentity
from tests.helpers.paper_target import Script

INIT, ADD, PRODUCE, END = 22, 24, 0, 26


def items() -> list[ReplayItem]:
    script = Script()
    for at, key in enumerate((INIT, ADD, PRODUCE, END)):
        script.add(at, key, 0, {}, raw=b"")
    return [ReplayItem(request, "client", transaction="payments") for request in script.requests]


def test_only_earlier_conflicting_requests_that_have_not_ended_are_waited_for() -> None:
    requests, gates = items(), RequestGates()
    transactions = Transactions(requests, {"payments": [0, 1, 2, 3]}, gates)
    assert list(transactions.earlier(requests[3], lambda _key: True)) == [0, 1, 2]
    assert list(transactions.earlier(requests[3], {ADD}.__contains__)) == [1]
    gates.end(0)
    gates.end(2)
    assert list(transactions.earlier(requests[3], lambda _key: True)) == [1]
    gates.end(1)
    assert list(transactions.earlier(requests[3], lambda _key: True)) == []
    assert list(transactions.earlier(ReplayItem(requests[3].request, "client"), lambda _key: True)) == []


def test_a_transaction_that_ended_begins_without_partitions() -> None:
    transactions, identity = Transactions([], {}, RequestGates()), ProducerIdentity(4, 0)
    transactions.add_partitions("payments", [("orders", 0)])
    transactions.note_open("payments", identity)
    assert transactions.has_partition("payments", ("orders", 0))
    assert not transactions.has_partition("payments", ("orders", 1))
    assert (transactions.is_open("payments"), transactions.open) == (True, {"payments": identity})
    transactions.end("payments")
    assert not transactions.has_partition("payments", ("orders", 0))
    assert (transactions.is_open("payments"), transactions.is_open(None)) == (False, False)
