"""The facts that a first reading finds, in a recorded capture and in frames made by hand."""

import pytest

from kdissect.capture.index.index import index_captures
from kdissect.capture.inputs import open_inputs
from kdissect.exchanges.prescan import (
    HOLD_NS,
    NAMING_REQUESTS,
    NAMING_RESPONSES,
    NEVER,
    LiveFacts,
    PrescanResult,
    earliest_unfinished,
    new_processor,
    prescan_capture,
    requested_mechanism,
    scan_pieces,
    token_mechanism,
)
from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.codec.messages import encode_request
from kdissect.streams.engine import ExchangeBatch
from kdissect.streams.flow_state import ORPHAN_RESPONSE
from kdissect.streams.processor import FlowProcessor
from kdissect.streams.tls.keylog import NO_KEYS
from kdissect.text import format_uuid
from tests.helpers import recorded
from tests.helpers.recorded import CAPTURES


def facts_of(name: str, split_bytes: int = 2 << 20) -> PrescanResult:
    files = open_inputs([str(recorded.CAPTURES / name)], "").files
    return prescan_capture(index_captures(files, split_bytes).splits)


def test_every_topic_id_of_the_tables_has_a_name() -> None:
    facts = facts_of("broker-restart.pcapng")
    names = {format_uuid(raw): name for raw, name in facts.names.items()}
    rows = recorded.rows("broker-restart.pcapng", "partitions")
    ids = {row["topic_id"] for row in rows if row["topic_id"] and row["topic"] is None}
    assert ids
    assert ids <= names.keys()
    assert names["AAAAAAAAAAAAAAAAAAAAAQ"] == "__cluster_metadata"


def test_what_tcp_did_takes_no_memory() -> None:
    files = open_inputs([str(recorded.CAPTURES / "broker-restart.pcapng")], "").files
    splits = index_captures(files).splits
    processor = new_processor(splits, NO_KEYS)
    found = [len(batch.exchanges) for pieces in scan_pieces(splits, ()) for batch in processor.feed(pieces)]
    found += [len(batch.exchanges) for batch in processor.close()]
    assert sum(found) > 100
    assert not len(processor.tcp.steps())
    assert not any(map(len, processor.tcp.connections()))


def test_nodes_have_the_addresses_that_they_advertise() -> None:
    facts = facts_of("broker-restart.pcapng")
    servers = {
        (row["server_host"], row["server_port"])
        for row in recorded.rows("broker-restart.pcapng", "connections")
        if row["responses"]
    }
    ports = {port for ends in facts.nodes.values() for _, port in ends}
    assert len(facts.nodes) > 1
    assert ports & {port for _, port in servers}


def test_facts_do_not_depend_on_the_splits() -> None:
    one, many = facts_of("rebalances.pcapng"), facts_of("rebalances.pcapng", 50_000)
    assert one.names == many.names
    assert one.nodes == many.nodes
    assert one.later_ns == (NEVER,)
    assert len(many.later_ns) > 5
    assert sorted(many.later_ns) == list(many.later_ns)


def test_messages_that_tell_names() -> None:
    assert {ApiKey.METADATA, ApiKey.CREATE_TOPICS, ApiKey.FIND_COORDINATOR} <= set(NAMING_RESPONSES)
    assert ApiKey.FETCH not in NAMING_REQUESTS
    assert ApiKey.HEARTBEAT not in NAMING_RESPONSES


@pytest.mark.parametrize(
    ("frame", "mechanism"), [(b"\x60\x48token", "GSSAPI"), (b"\0user\0secret", None), (b"", None)]
)
def test_only_gssapi_comes_without_handshake(frame: bytes, mechanism: str | None) -> None:
    assert token_mechanism(frame) == mechanism


def test_a_handshake_names_the_mechanism() -> None:
    header = {"request_api_key": 17, "request_api_version": 0, "correlation_id": 1, "client_id": "me"}
    frame = encode_request(header, {"mechanism": "PLAIN"})
    assert requested_mechanism(frame) == "PLAIN"
    assert requested_mechanism(frame[:-2]) is None


def first_times(batch: ExchangeBatch) -> list[int]:
    return [
        int(row["response" if row["status"] == ORPHAN_RESPONSE else "request"]["first_byte_ns"])
        for row in batch.exchanges
    ]


def held_ns(processor: FlowProcessor) -> int:
    return min(earliest_unfinished(state, count) for state, count in processor.states())


@pytest.mark.parametrize("name", ["rebalances.pcapng", "clock-step.pcapng"])
def test_no_exchange_of_earlier_splits_begins_before_it(name: str) -> None:
    splits = index_captures(open_inputs([str(CAPTURES / name)], "").files, 50_000).splits
    processor = new_processor(splits, NO_KEYS)
    assert held_ns(processor) == NEVER
    marks, before = [], 0
    for pieces in scan_pieces(splits, ()):
        seen_ns = min(pieces["first_time_ns"].to_pylist(), default=NEVER)
        for batch in processor.feed(pieces):
            times = first_times(batch)
            before += sum(time < seen_ns for time in times)
            assert not marks or all(time >= min(marks[-1], seen_ns) for time in times)
        marks.append(held_ns(processor))
    last = [time for batch in processor.close() for time in first_times(batch)]
    assert all(time >= marks[-1] for time in last)
    assert before, "no exchange spans two splits: the test shows nothing"


def test_nothing_is_complete_behind_the_latest_packet() -> None:
    assert LiveFacts(lambda: 5).complete_ns(NEVER) == 5


def test_what_is_unfinished_holds_up_what_began_later() -> None:
    assert LiveFacts(lambda: HOLD_NS).complete_ns(7) == 7


def test_it_does_not_hold_up_for_ever() -> None:
    assert LiveFacts(lambda: 10 * HOLD_NS).complete_ns(7) == 9 * HOLD_NS
