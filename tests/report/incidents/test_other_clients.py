"""The same faults as other client libraries show them: random names, raw logins, fetch sessions, KIP-848.

Each story has a healthy background. The first incident must have the cause, and its headline the names that
people search for.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.error_codes import ErrorCode
from tests.helpers.told_capture import Line, Story, batch
from tests.helpers.told_groups import (
    analyzed,
    background,
    fetch,
    heartbeat,
    heartbeats,
    join,
    leave,
    produce,
)

RANDOM_IDS = (
    "9f3c2a71-8d2e-4b8e-9d0f-aa12bb34cc56",
    "1b7e4d90-55aa-4e0f-8f33-0a9b8c7d6e5f",
    "c0ffee12-3456-4789-abcd-ef0123456789",
    "77aa88bb-99cc-40dd-8eff-001122334455",
    "deadbeef-1234-4321-aaaa-bbbbccccdddd",
)


def client(story: Story, name: str, at_ms: float = 0.0, host: int = 2) -> Line:
    return story.connect(f"10.1.0.{host}", client_id=name, at_ms=at_ms)


def beat(
    line: Line, at_ms: float, member: str, epoch: int, answered: int, error: int = 0, **more: str
) -> None:
    """Send a heartbeat of KIP-848."""
    request = {
        "group_id": "modern",
        "member_id": member,
        "member_epoch": epoch,
        "rebalance_timeout_ms": 60_000,
    }
    request |= {"subscribed_topic_names": ["orders"]} if epoch == 0 else {}
    response = {"error_code": error, "member_id": member, "member_epoch": answered}
    line.call(at_ms, 2, ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, request | more, response)


def member_that_stays(story: Story, rejoins: list[int]) -> None:
    line = client(story, "other", host=3)
    for generation, at_ms in enumerate(rejoins, 1):
        join(line, at_ms, "other-1", generation)
    heartbeats(line, 100, 29_000, "other-1", 1)


def restarts_under_random_ids(story: Story) -> None:
    member_that_stays(story, [50, *(5_050 + 3_000 * number for number in range(5))])
    for number, suffix in enumerate(RANDOM_IDS):
        line = client(story, f"billing-{suffix}", 5_000 + 3_000 * number)
        join(line, 5_010 + 3_000 * number, f"loop-{number}", number + 2)
        line.close(7_000 + 3_000 * number)


def restarts_at_one_record(story: Story) -> None:
    """The process ends at a record, and its next life begins with the same one."""
    for number in range(6):
        at_ms = 5_000 + 3_000 * number
        line, reader = client(story, "worker", at_ms), client(story, "worker", at_ms + 30)
        join(line, at_ms + 20, f"worker-{number}", number + 1)
        fetch(reader, at_ms + 50, 18, 60)
        line.close(at_ms + 1_000)
        reader.close(at_ms + 1_000)


def alone(story: Story) -> tuple[Line, Line]:
    """A group of one member, and the connections of its heartbeats and of its fetches."""
    line, reader = client(story, "alone"), client(story, "alone")
    join(line, 50, "alone-1", 1)
    heartbeats(line, 500, 12_000, "alone-1", 1)
    for at_ms in range(300, 12_000, 300):
        fetch(reader, at_ms, at_ms // 20, at_ms // 20 + 10)
    return line, reader


def lone_member_killed(story: Story) -> None:
    for line in alone(story):
        line.close(12_100, reset=True)


def lone_member_frozen(story: Story) -> None:
    alone(story)


def killed_in_a_modern_group(story: Story) -> None:
    """The others of a group of KIP-848 do not join again: they get a new epoch."""
    other, gone = client(story, "modern-other", host=3), client(story, "modern-gone")
    for line, name, end_ms in ((other, "o-1", 29_000), (gone, "g-1", 12_000)):
        beat(line, 60, name, 0, 1)
        for at_ms in range(1_000, end_ms, 1_000):
            beat(line, at_ms, name, 1 if at_ms < 19_000 else 2, 1 if at_ms < 18_000 else 2)
    gone.close(12_000)


def removed_beside_a_namesake(story: Story) -> None:
    """Two processes have the default name of their library, and one of them stops its heartbeats."""
    twin, line = client(story, "kafkajs"), client(story, "kafkajs")
    join(twin, 60, "js-x", 1)
    heartbeats(twin, 600, 29_000, "js-x", 1)
    join(line, 50, "js-1", 1)
    heartbeats(line, 500, 4_000, "js-1", 1)
    heartbeat(line, 13_000, "js-1", 1, ErrorCode.UNKNOWN_MEMBER_ID)
    join(line, 13_020, "js-2", 3)


def left_and_stayed_connected(story: Story) -> None:
    """The client left since nobody polls, and nobody polls any more."""
    line, reader = client(story, "stuck"), client(story, "stuck")
    join(line, 50, "stuck-1", 1)
    heartbeats(line, 500, 9_000, "stuck-1", 1)
    leave(line, 9_000, "stuck-1")
    for at_ms in range(1_000, 29_000, 4_000):
        reader.call(at_ms, 1, ApiKey.METADATA, 1, {"topics": []}, {"brokers": [], "topics": []})


def second_owner_of_an_instance_id(story: Story) -> None:
    """In groups of KIP-848 the later member is the one that is refused."""
    first, second = client(story, "pod-a"), client(story, "pod-b", 10_000, host=4)
    beat(first, 50, "m-a", 0, 1, instance_id="inst-7")
    for at_ms in range(1_000, 29_000, 1_000):
        beat(first, at_ms, "m-a", 1, 1, instance_id="inst-7")
    for at_ms in range(10_100, 20_000, 2_000):
        beat(second, at_ms, "m-b", 0, 0, ErrorCode.UNRELEASED_INSTANCE_ID, instance_id="inst-7")


def displaced_without_naming_its_instance(story: Story) -> None:
    """Heartbeats before version 3 have no instance id, so the displaced member is merely unknown."""
    for number, at_ms in enumerate((50, 8_000, 12_000, 16_000)):
        line = client(story, "pod-a" if number % 2 == 0 else "pod-b", at_ms - 20, host=2 + number % 2)
        join(line, at_ms, f"static-{number}", number + 1, group_instance_id="pod-0")
        heartbeat(line, at_ms + 500, f"static-{number}", number + 1)
        heartbeat(line, at_ms + 8_100, f"static-{number}", number + 1, ErrorCode.UNKNOWN_MEMBER_ID)


def poison_record_in_a_fetch_session(story: Story) -> None:
    """An incremental fetch does not name the partition again whose offset is that of the fetch before."""
    line = client(story, "stuck", 9_900)
    for number in range(20):
        asked = [{"topic": "orders", "partitions": [{"partition": 0, "fetch_offset": 18}]}]
        request = {"replica_id": -1, "max_wait_ms": 500, "min_bytes": 1, "max_bytes": 1 << 20}
        request |= {"session_id": 77 if number else 0, "session_epoch": number}
        request |= {"topics": [] if number else asked}
        found = {"partition_index": 0, "high_watermark": 60, "records": batch(18, 5)}
        response = {"session_id": 77, "responses": [{"topic": "orders", "partitions": [found]}]}
        line.call(10_000 + 500 * number, 2, ApiKey.FETCH, 11, request, response)


def logs_in(line: Line, at_ms: float, version: int) -> None:
    request, response = {"mechanism": "PLAIN"}, {"mechanisms": ["PLAIN"]}
    line.call(at_ms, 1, ApiKey.SASL_HANDSHAKE, version, request, response)


def raw_login_that_the_server_closes(story: Story) -> None:
    line = client(story, "bad", 10_000)
    logs_in(line, 10_001, 0)
    line.send(10_003, True, b"\0\0\0\x0a\0alice\0xyz")
    line.close(10_110, by_client=False)


def logins_that_the_server_closes(story: Story) -> None:
    for number in range(4):
        at_ms = 10_000 + 2_000 * number
        line = client(story, "bad", at_ms)
        logs_in(line, at_ms + 1, 1)
        line.ask(at_ms + 3, ApiKey.SASL_AUTHENTICATE, 1, {"auth_bytes": b"\0bob\0x"})
        line.close(at_ms + 110, by_client=False)


def group_that_is_forbidden(story: Story) -> None:
    """Clients that may not use a group hear it from FindCoordinator, and never join."""
    line = client(story, "bad", 9_900)
    found = {"key": "secret-group", "node_id": -1, "host": "", "port": -1}
    found |= {"error_code": ErrorCode.GROUP_AUTHORIZATION_FAILED, "error_message": None}
    for number in range(5):
        request = {"key_type": 0, "coordinator_keys": ["secret-group"]}
        line.call(10_000 + 1_000 * number, 1, ApiKey.FIND_COORDINATOR, 4, request, {"coordinators": [found]})


def producer_that_may_not_be_idempotent(story: Story) -> None:
    line = client(story, "bad", 9_900)
    request = {"transactional_id": None, "transaction_timeout_ms": 60_000}
    response = {"error_code": ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "producer_id": -1, "producer_epoch": -1}
    line.call(10_000, 1, ApiKey.INIT_PRODUCER_ID, 1, request, response)


def gives_up_on_a_missing_topic(story: Story) -> None:
    """Four look-ups within a second, then the client reports an error to its application."""
    line = client(story, "svc", 9_900)
    for number in range(4):
        topic = {"error_code": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "name": "oders", "partitions": []}
        response = {"brokers": [], "controller_id": 1, "topics": [topic]}
        request = {"topics": [{"name": "oders"}]}
        line.call(10_000 + 250 * number, 1, ApiKey.METADATA, 1, request, response)
    line.close(11_000)


def transaction_that_times_out(story: Story) -> None:
    """The coordinator ends a transaction, and fences its producer, though there is no other one."""
    line = client(story, "holder", 900)
    request = {"transactional_id": "bank", "transaction_timeout_ms": 20_000}
    response = {"producer_id": 9, "producer_epoch": 0}
    line.call(1_000, 1, ApiKey.INIT_PRODUCER_ID, 1, request, response)
    names = {"transactional_id": "bank", "producer_id": 9, "producer_epoch": 0}
    asked = {f"v3_and_below_{name}": value for name, value in names.items()}
    asked |= {"v3_and_below_topics": [{"name": "orders", "partitions": [0]}]}
    for at_ms, error in ((1_010, 0), (25_000, ErrorCode.INVALID_PRODUCER_EPOCH)):
        rows = [{"partition_index": 0, "partition_error_code": error}]
        found = {"results_by_topic_v3_and_below": [{"name": "orders", "results_by_partition": rows}]}
        line.call(at_ms, 1, ApiKey.ADD_PARTITIONS_TO_TXN, 1, asked, found)


def connections_under_random_ids(story: Story) -> None:
    for number in range(80):
        at_ms = 10_000 + 100 * number
        line = client(story, f"job-{number * 7919 % 100_000:05d}", at_ms)
        produce(line, at_ms + 5)
        line.close(at_ms + 50)


def connections_without_a_request(story: Story) -> None:
    for number in range(80):
        client(story, "nobody", 10_000 + 100 * number).close(10_010 + 100 * number)


def version_in_the_client_id(story: Story) -> None:
    """Some clients name no software, but their client id has its version."""
    old, new = client(story, "checkout-1.4.0"), client(story, "checkout-1.5.0", 10_000)
    for at_ms in range(100, 9_000, 400):
        produce(old, at_ms)
    old.close(9_500)
    for at_ms in range(10_100, 24_000, 400):
        produce(new, at_ms, error=ErrorCode.MESSAGE_TOO_LARGE)


def one_error_for_many_clients(story: Story) -> None:
    """Each client hears it once, about its own transactional id."""
    for number in range(8):
        line = client(story, f"payer-{number}", 9_000 + 800 * number, host=20 + number)
        request = {"transactional_id": f"tx-{number}", "transaction_timeout_ms": 60_000}
        response = {"error_code": ErrorCode.UNKNOWN_SERVER_ERROR, "producer_id": -1, "producer_epoch": -1}
        line.call(9_100 + 800 * number, 1, ApiKey.INIT_PRODUCER_ID, 1, request, response)


class Case(NamedTuple):
    """A story, its cause, and what the headline must have in it."""

    tell: Callable[[Story], None]
    cause: str
    words: tuple[str, ...]


CASES = (
    Case(restarts_under_random_ids, "rebalance_loop", ("5 short-lived clients named billing-…", "readers")),
    Case(
        restarts_at_one_record,
        "rebalance_loop",
        ("worker at 10.1.0.2", "never gets past offset 18 of orders-0"),
    ),
    Case(lone_member_killed, "session_timeout", ("alone at 10.1.0.2 ended", "nobody has read")),
    Case(
        lone_member_frozen, "session_timeout", ("alone at 10.1.0.2 sent nothing any more", "nobody has read")
    ),
    Case(killed_in_a_modern_group, "session_timeout", ("modern-gone at 10.1.0.2 ended", "group modern")),
    Case(removed_beside_a_namesake, "session_timeout", ("kafkajs at 10.1.0.2", "UNKNOWN_MEMBER_ID")),
    Case(
        left_and_stayed_connected,
        "slow_consumer",
        (
            "stuck at 10.1.0.2 probably took longer than max.poll.interval.ms",
            "it left group readers",
            "stayed away",
        ),
    ),
    Case(
        second_owner_of_an_instance_id,
        "duplicate_instance_id",
        ("inst-7", "pod-b at 10.1.0.4", "2 connections"),
    ),
    Case(displaced_without_naming_its_instance, "duplicate_instance_id", ("pod-0", "UNKNOWN_MEMBER_ID")),
    Case(poison_record_in_a_fetch_session, "poison_record", ("offset 18 of orders-0", "20 times")),
    Case(
        raw_login_that_the_server_closes, "wrong_password", ("bad at 10.1.0.2", "SASL PLAIN", "1 connection")
    ),
    Case(logins_that_the_server_closes, "wrong_password", ("bad at 10.1.0.2", "SASL PLAIN", "4 connections")),
    Case(group_that_is_forbidden, "missing_right", ("bad at 10.1.0.2", "group secret-group")),
    Case(producer_that_may_not_be_idempotent, "missing_right", ("bad at 10.1.0.2", "InitProducerId")),
    Case(gives_up_on_a_missing_topic, "missing_topic", ("topic oders", "it probably means topic orders")),
    Case(transaction_that_times_out, "open_transaction", ("bank", "holder at 10.1.0.2")),
    Case(connections_under_random_ids, "connection_storm", ("job-… at 10.1.0.2", "80 connections")),
    Case(connections_without_a_request, "connection_storm", ("Host 10.1.0.2", "without a request")),
    Case(version_in_the_client_id, "deployment", ("checkout went from checkout 1.4.0 to 1.5.0",)),
    Case(one_error_for_many_clients, "errors_repeated", ("UNKNOWN_SERVER_ERROR", "8 clients")),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.tell.__name__)
def test_the_cause_is_named(case: Case, tmp_path: Path) -> None:
    story = Story()
    background(story)
    case.tell(story)
    first = analyzed(story, tmp_path).incidents[0]
    assert first.cause == case.cause, first.headline
    assert all(word in first.headline for word in case.words), first.headline


def job_of_random_ids(story: Story) -> None:
    """A job runs three times, each time under another id, and leaves its group in order."""
    for number, suffix in enumerate(RANDOM_IDS[:3]):
        line = client(story, f"nightly-{suffix}", 5_000 + 7_000 * number)
        join(line, 5_010 + 7_000 * number, f"nightly-{number}", number + 1)
        heartbeats(line, 5_500 + 7_000 * number, 8_000 + 7_000 * number, f"nightly-{number}", number + 1)
        leave(line, 8_000 + 7_000 * number, f"nightly-{number}")
        line.close(8_050 + 7_000 * number)


def last_reader_of_a_quiet_topic(story: Story) -> None:
    """A member ends without leaving, but nothing is written that it could have read."""
    line = client(story, "done")
    join(line, 50, "done-1", 1)
    heartbeats(line, 500, 9_000, "done-1", 1)
    line.close(9_100)


def one_login_of_a_server_that_stops(story: Story) -> None:
    line = client(story, "good", 10_000)
    logs_in(line, 10_001, 1)
    line.ask(10_003, ApiKey.SASL_AUTHENTICATE, 1, {"auth_bytes": b"\0bob\0x"})
    line.close(10_010, by_client=False)
    again = client(story, "good", 10_500)
    logs_in(again, 10_501, 1)
    again.call(10_503, 1, ApiKey.SASL_AUTHENTICATE, 1, {"auth_bytes": b"\0bob\0x"}, {"auth_bytes": b""})
    produce(again, 10_510)


@pytest.mark.parametrize(
    ("tell", "cause"),
    [
        (job_of_random_ids, "rebalance_loop"),
        (last_reader_of_a_quiet_topic, "session_timeout"),
        (one_login_of_a_server_that_stops, "wrong_password"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_what_looks_like_it_is_not_it(tell: Callable[[Story], None], cause: str, tmp_path: Path) -> None:
    story = Story()
    background(story)
    tell(story)
    assert cause not in {one.cause for one in analyzed(story, tmp_path).incidents}
