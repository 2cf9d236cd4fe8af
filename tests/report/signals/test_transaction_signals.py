"""Transactions as signals: how long they are open, against what is usual."""

from pathlib import Path

import pytest

from kdissect.protocol.api_keys import ApiKey
from tests.helpers.told_capture import Line, Story, batch
from tests.helpers.told_groups import analyzed, fetch, heartbeats, produce

PRODUCER = {"transactional_id": "bank", "producer_id": 9, "producer_epoch": 0}


def add_partitions(line: Line, at_ms: float) -> None:
    """Add a partition of orders to the transaction of bank."""
    topics = [{"name": "orders", "partitions": [0]}]
    request = {f"v3_and_below_{name}": value for name, value in PRODUCER.items()}
    found = [{"name": "orders", "results_by_partition": [{"partition_index": 0}]}]
    body = request | {"v3_and_below_topics": topics}
    line.call(at_ms, 1, ApiKey.ADD_PARTITIONS_TO_TXN, 1, body, {"results_by_topic_v3_and_below": found})


def add_for_producer(line: Line, at_ms: float) -> None:
    """Add a partition for a producer, as brokers do for each other (KIP-890)."""
    topics = [{"name": "orders", "partitions": [0]}]
    transaction = PRODUCER | {"verify_only": False, "topics": topics}
    found = [{"name": "orders", "results_by_partition": [{"partition_index": 0}]}]
    response = {"results_by_transaction": [{"transactional_id": "bank", "topic_results": found}]}
    line.call(at_ms, 1, ApiKey.ADD_PARTITIONS_TO_TXN, 4, {"transactions": [transaction]}, response)


@pytest.mark.parametrize(("usual_ms", "is_told"), [(500, True), (9_000, False)])
def test_a_transaction_is_open_for_long_if_it_is_unusual(
    usual_ms: int, is_told: bool, tmp_path: Path
) -> None:
    story = Story()
    line = story.connect("10.1.0.2", client_id="holder")
    at_ms = 100
    for length_ms in (usual_ms, usual_ms, 12_000):
        add_partitions(line, at_ms)
        line.call(at_ms + length_ms, 1, ApiKey.END_TXN, 1, PRODUCER | {"committed": True}, {})
        at_ms += length_ms + 100
    found_signals = [one for one in analyzed(story, tmp_path).signals if one.kind == "transaction_open"]
    assert [one.subject.name for one in found_signals] == ["bank"] * is_told
    assert all(one.end_ns is not None for one in found_signals)


def write(line: Line, at_ms: float, offset: int) -> None:
    """Write a batch as part of a transaction."""
    data = {"index": 0, "records": batch(0, 1, at_ms)}
    request = {"transactional_id": "bank", "acks": -1, "timeout_ms": 1000}
    request |= {"topic_data": [{"name": "orders", "partition_data": [data]}]}
    found = {"index": 0, "error_code": 0, "base_offset": offset}
    response = {"responses": [{"name": "orders", "partition_responses": [found]}]}
    line.call(at_ms, 2, ApiKey.PRODUCE, 7, request, response)


def opened(story: Story, *, reads_on: bool) -> None:
    """Open a transaction by way of a broker; a reader of the topic gets on, or does not."""
    holder = story.connect("10.1.0.2", client_id="holder")
    request = {"transactional_id": "bank", "transaction_timeout_ms": 60_000}
    holder.call(1_000, 1, ApiKey.INIT_PRODUCER_ID, 1, request, {"producer_id": 9, "producer_epoch": 0})
    produce(holder, 1_010, offset=0)
    broker = story.connect("10.0.0.2", client_id="AddPartitionsManager-client-2")
    add_for_producer(broker, 1_012)
    heartbeats(story.connect("10.1.0.3", client_id="reader"), 100, 20_000, "m", 1)
    writer, reader = (
        story.connect(f"10.1.0.{host}", client_id=name) for host, name in ((4, "writer"), (3, "reader"))
    )
    for number in range(38):
        at_ms = 1_100 + 500 * number
        produce(writer, at_ms, offset=10 * (number + 1))
        end = 10 * (number + 2)
        fetch(reader, at_ms + 10, end - 10 if reads_on else 10, end, records=10 * reads_on)


def test_the_producer_is_named_and_not_the_broker_that_adds_partitions_for_it(tmp_path: Path) -> None:
    story = Story()
    opened(story, reads_on=True)
    (signal,) = (one for one in analyzed(story, tmp_path).signals if one.kind == "transaction_open")
    assert signal.clients == ("holder at 10.1.0.2",)
    assert "gets no record" not in signal.sentence


@pytest.mark.parametrize("adds", [True, False], ids=["brokers add partitions", "nobody does"])
def test_a_capture_without_the_coordinator_lacks_the_ends_of_transactions(adds: bool, tmp_path: Path) -> None:
    """One broker is seen, and the producer begins and ends its transactions at another one."""
    story = Story()
    line = story.connect("10.1.0.2", client_id="modern")
    broker = story.connect("10.0.0.2", client_id="AddPartitionsManager-client-2")
    for number in range(30):
        write(line, 100 + 500 * number, number)
        if adds:
            add_for_producer(broker, 102 + 500 * number)
    assert "transaction_open" not in {one.kind for one in analyzed(story, tmp_path).signals}


def test_readers_that_a_transaction_holds_up_are_named(tmp_path: Path) -> None:
    story = Story()
    opened(story, reads_on=False)
    summary = analyzed(story, tmp_path)
    (signal,) = (one for one in summary.signals if one.kind == "transaction_open")
    assert "reader at 10.1.0.3 (group readers) gets no record since " in signal.sentence
    assert signal.groups == ("readers",)
    assert [incident.cause for incident in summary.incidents] == ["open_transaction"]


@pytest.mark.parametrize(("ends", "is_told"), [(False, True), (True, False)])
def test_a_producer_that_announces_no_partitions_is_seen_by_what_it_writes(
    ends: bool, is_told: bool, tmp_path: Path
) -> None:
    story = Story()
    line = story.connect("10.1.0.2", client_id="modern")
    for number in range(30):
        at_ms = 100 + 500 * number
        write(line, at_ms, number)
        if ends or number < 2:
            line.call(at_ms + 200, 1, ApiKey.END_TXN, 1, PRODUCER | {"committed": True}, {})
    found_signals = [one for one in analyzed(story, tmp_path).signals if one.kind == "transaction_open"]
    assert [one.subject.name for one in found_signals] == ["bank"] * is_told
    for one in found_signals:
        assert one.clients == ("modern at 10.1.0.2",)
        assert 13 < one.measures["open_ns"] / 1e9 < 14
