"""Groups, topics and activity of clients, from the tables of a report."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.error_codes import ErrorCode
from kdissect.report.partials import summarise
from kdissect.report.query.connection_facts import read_connection_facts
from kdissect.report.signals.client_names import BROKERS_OWN, ClientFacts
from tests.helpers.paper_capture import MS
from tests.helpers.report_rows import HEARTBEAT, PRODUCE, connection, exchange_of, tables
from tests.helpers.told_capture import Story
from tests.helpers.told_groups import analyzed, heartbeat, join, produce


@pytest.mark.parametrize(
    ("client_id", "own"),
    [
        ("broker-1-fetcher-0", True),
        ("broker-2-txn-marker-sender", True),
        ("AddPartitionsManager-client-3", True),
        ("Persister-client-1", True),
        ("raft-client-1", True),
        ("broker-service-1", False),
        ("craft-client-1", False),
    ],
)
def test_clients_that_are_parts_of_brokers(client_id: str, own: bool) -> None:
    assert bool(BROKERS_OWN.fullmatch(client_id)) is own


def test_a_client_that_was_there_before_is_not_dated_to_its_begin(tmp_path: Path) -> None:
    story = Story()
    line = story.connect("10.1.0.2", client_id="old")
    for at_ms in range(10, 12_000, 500):
        produce(line, at_ms)
    produce(line, 12_000, error=ErrorCode.MESSAGE_TOO_LARGE)
    summary = analyzed(story, tmp_path)
    (signal,) = (one for one in summary.signals if one.kind == "records_oversized")
    assert abs(signal.begin_ns - summary.capture.first_time_ns - 12_002_000_000) < 10**6


def test_a_client_is_dated_by_its_connections_in_the_order_of_time() -> None:
    is_new = np.array([True, True, False, True, True])
    context = SimpleNamespace(
        client_names=("early", "late"),
        connections=SimpleNamespace(
            client=np.array([1, 1, 0, 0, 1]), first_ns=np.array([9, 5, 3, 4, 7]) * MS
        ),
        facts=SimpleNamespace(columns=SimpleNamespace(equals=lambda _column, _text: is_new)),
    )
    facts = ClientFacts(cast(Any, context))
    assert facts.began("late", 8 * MS) == 5 * MS  # its first connection
    assert facts.began("late", 4 * MS) == 4 * MS
    assert facts.began("late", 8 * MS, within_ns=2 * MS) == 8 * MS
    assert facts.began("early", 8 * MS) == 8 * MS  # it was there before
    assert facts.connected("early", 8 * MS) == 4 * MS
    assert facts.connected("late", 6 * MS) == 5 * MS
    assert facts.began("nobody", 8 * MS) == facts.connected("nobody", 8 * MS) == 8 * MS


def test_clients_that_call_what_only_nodes_call_are_nodes() -> None:
    ends = [connection(at, client_host=f"10.1.0.{at}", client_id="1") for at in (1, 2)]
    calls = [
        exchange_of(1, 0, (ApiKey.BROKER_HEARTBEAT, "BrokerHeartbeat", 1), 5, MS, client_id="1"),
        exchange_of(2, 0, PRODUCE, 6, MS, client_id="1"),
    ]
    partial = summarise(tables(calls, [], ends))
    facts = ClientFacts(
        cast(Any, SimpleNamespace(table=partial.columns, facts=read_connection_facts(partial)))
    )
    assert facts.nodes == {"1 at 10.1.0.1"}


def test_a_connection_has_one_line_for_each_group_that_its_client_is_in() -> None:
    ends = [connection(at, client_host=f"10.1.0.{at}", client_id="c") for at in (1, 2)]
    beats = [
        exchange_of(2, 0, HEARTBEAT, 5, MS, client_id="c", group_id="first"),
        exchange_of(2, 1, HEARTBEAT, 9, MS, client_id="c", group_id="first", api_version=3),
        exchange_of(2, 2, HEARTBEAT, 7, MS, client_id="c", group_id="second"),
        exchange_of(1, 0, HEARTBEAT, 6, MS, client_id="c", group_id="first"),
        exchange_of(1, 1, PRODUCE, 1, MS, client_id="c", group_id="first"),
        exchange_of(99, 0, HEARTBEAT, 4, MS, client_id="c", group_id="first"),
    ]
    partial = summarise(tables(beats, [], ends))
    facts = ClientFacts(
        cast(Any, SimpleNamespace(table=partial.columns, facts=read_connection_facts(partial)))
    )
    found = [
        (group, line.client, line.connection, line.row, (line.last_ns - line.first_ns) // MS)
        for group, lines in facts.member_lines.items()
        for line in lines.lines()
    ]
    assert sorted(found) == [
        ("first", "c at 10.1.0.1", 1, 0, 1),
        ("first", "c at 10.1.0.2", 2, 1, 5),
        ("second", "c at 10.1.0.2", 2, 1, 1),
    ]
    assert facts.member_lines["first"].connection.tolist() == [2, 1]
    assert facts.groups["c at 10.1.0.2"] == {"first", "second"}


def test_the_groups_of_a_client_stand_beside_its_refusals(tmp_path: Path) -> None:
    story = Story()
    line = story.connect("10.1.0.2", client_id="both")
    join(line, 10, "both-1", 1)
    heartbeat(line, 500, "both-1", 1)
    produce(line, 1_000, error=ErrorCode.MESSAGE_TOO_LARGE)
    (signal,) = (one for one in analyzed(story, tmp_path).signals if one.kind == "records_oversized")
    assert signal.groups == ("readers",)
