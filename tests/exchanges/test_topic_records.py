"""The records inside exchanges, with the topic that only an id names, and control batches."""

from __future__ import annotations

from collections import Counter

import pytest

import kdissect
from tests.helpers.recorded import CAPTURES


def test_records_of_topic_ids_have_the_name_of_their_topic() -> None:
    by_version = Counter(
        (one.api_version, record.topic)
        for one in kdissect.read(CAPTURES / "steady.pcapng", api="Fetch", topic="orders")
        for record in one.records
    )
    assert {topic for _, topic in by_version} == {"orders"}
    assert any(version is not None and version >= 13 for version, _ in by_version)


def test_markers_of_transactions_are_no_records_of_a_producer() -> None:
    kinds = Counter(
        record.control
        for one in kdissect.read(CAPTURES / "transactions.pcapng", api="Fetch")
        for record in one.records
    )
    assert kinds["commit"] > 0
    assert kinds["abort"] > 0
    assert kinds[None] > kinds["commit"]


@pytest.mark.parametrize("api", ["Metadata", "Heartbeat"])
def test_other_exchanges_have_no_records(api: str) -> None:
    assert not [
        record for one in kdissect.read(CAPTURES / "steady.pcapng", api=api) for record in one.records
    ]
