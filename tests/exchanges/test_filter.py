"""Which exchanges of a recorded capture a filter selects, and what a single body names."""

from __future__ import annotations

from pathlib import Path

import pytest

from kdissect.capture.index.index import index_captures
from kdissect.capture.inputs import open_inputs
from kdissect.exchanges.decoded import DecodedExchange
from kdissect.exchanges.exchange import Exchange
from kdissect.exchanges.filter import (
    ExchangeFilter,
    error_codes,
    errors_of,
    groups_of,
    mentioned_groups,
    mentioned_topics,
    topics_of,
)
from kdissect.exchanges.prescan import PrescanResult, prescan_capture
from kdissect.exchanges.reader import ExchangeReader
from kdissect.protocol.api_keys import ApiKey

CAPTURE = Path(__file__).parents[2] / "captures" / "rebalances.pcapng"
SPLITS = index_captures(open_inputs([str(CAPTURE)], "").files, 2 << 20).splits


@pytest.fixture(scope="module")
def prescan() -> PrescanResult:
    return prescan_capture(SPLITS)


def selected(wanted: ExchangeFilter, prescan: PrescanResult) -> list[Exchange]:
    exchanges = ExchangeReader(SPLITS, (), prescan).exchanges(wanted.header_mask, wanted.until_ns)
    return [each for each in exchanges if wanted.selects(DecodedExchange(each), prescan.names)]


@pytest.fixture(scope="module")
def everything(prescan: PrescanResult) -> list[Exchange]:
    return selected(ExchangeFilter(), prescan)


def test_headers_decide_about_api_time_and_latency(
    everything: list[Exchange], prescan: PrescanResult
) -> None:
    middle = everything[len(everything) // 2].first_ns
    assert selected(ExchangeFilter(since_ns=middle), prescan) == [
        each for each in everything if each.first_ns >= middle
    ]
    joins = selected(ExchangeFilter(apis=frozenset({ApiKey.JOIN_GROUP}), slower_than_ns=10**8), prescan)
    assert joins
    assert joins == [
        each for each in everything if each.api_key == ApiKey.JOIN_GROUP and (each.latency_ns or 0) > 10**8
    ]


def test_a_connection_goes_by_its_number_or_either_end(
    everything: list[Exchange], prescan: PrescanResult
) -> None:
    reader = ExchangeReader(SPLITS, (), prescan)
    first = next(iter(reader.exchanges(ExchangeFilter().header_mask)))
    expected = [each for each in everything if each.connection == first.connection]
    client, server = reader.addresses(first.connection)
    for name in (str(reader.identity(first.connection)), client):
        assert selected(ExchangeFilter(connections=frozenset({name})), prescan) == expected
    at_server = selected(ExchangeFilter(connections=frozenset({server})), prescan)
    assert at_server == selected(ExchangeFilter(brokers=(server,)), prescan)
    assert len(at_server) >= len(expected)


def test_messages_decide_about_client_topic_group_and_error(
    everything: list[Exchange], prescan: PrescanResult
) -> None:
    decoded = [DecodedExchange(each) for each in everything]
    group = next(name for each in decoded for name in mentioned_groups(each))
    topic = next(name for each in decoded for name in mentioned_topics(each, prescan.names))
    client = next(each.client_id for each in decoded if each.client_id)
    for wanted, holds in (
        (ExchangeFilter(groups=(group,)), lambda each: group in mentioned_groups(each)),
        (ExchangeFilter(topics=(topic,)), lambda each: topic in mentioned_topics(each, prescan.names)),
        (ExchangeFilter(clients=(client,)), lambda each: each.client_id == client),
        (ExchangeFilter(errors=frozenset({None})), lambda each: any(error_codes(each))),
    ):
        expected = [each.exchange for each in decoded if holds(each)]
        assert expected
        assert selected(wanted, prescan) == expected


FETCH, FIND_COORDINATOR, DESCRIBE_CONFIGS, OFFSET_FETCH = 1, 10, 32, 9


def test_topics_go_by_name_id_or_resource() -> None:
    named = {"topics": [{"topic": "orders", "partitions": []}]}
    assert topics_of(FETCH, 11, named, {}) == ["orders"]
    by_id = {"topics": [{"topic_id": b"o" * 16, "partitions": []}, {"topic_id": b"?" * 16, "partitions": []}]}
    assert topics_of(FETCH, 13, by_id, {b"o" * 16: "sales"}) == ["sales"]
    resources = [{"resource_type": kind, "resource_name": f"r{kind}"} for kind in (2, 4)]
    assert topics_of(DESCRIBE_CONFIGS, 4, {"resources": resources}, {}) == ["r2"]


def test_groups_are_told_from_transactional_ids() -> None:
    assert groups_of(FIND_COORDINATOR, 4, {"key_type": 0, "coordinator_keys": ["g", "h"]}) == ["g", "h"]
    assert groups_of(FIND_COORDINATOR, 4, {"key_type": 1, "coordinator_keys": ["payments"]}) == []
    assert groups_of(OFFSET_FETCH, 8, {"groups": [{"group_id": "g", "topics": None}]}) == ["g"]


def test_errors_come_in_wire_order_and_unknown_versions_have_none() -> None:
    partitions = [{"partition_index": 0, "error_code": 6}, {"partition_index": 1, "error_code": 0}]
    body = {"error_code": 70, "responses": [{"topic": "orders", "partitions": partitions}]}
    assert list(errors_of(FETCH, 11, body)) == [70, 6]
    assert list(errors_of(FETCH, 99, body)) == []
