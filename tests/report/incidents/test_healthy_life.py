"""Healthy life, told as stories: nothing is wrong, so the report shows no incident and no warning."""

from collections.abc import Callable
from pathlib import Path

import pytest

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.error_codes import ErrorCode
from kdissect.report.model.findings import Severity
from tests.helpers.told_capture import Line, Story
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

TRANSACTION = {"transactional_id": "bank", "producer_id": 9}


def member(story: Story, name: str, at_ms: float = 0.0, host: int = 2) -> Line:
    return story.connect(f"10.1.0.{host}", client_id=name, at_ms=at_ms)


def asks_for_an_id(
    line: Line, at_ms: float, given: str, error: ErrorCode = ErrorCode.MEMBER_ID_REQUIRED
) -> None:
    """Join without a member id, which the coordinator gives first (KIP-394)."""
    request = {"group_id": "readers", "session_timeout_ms": 6000, "rebalance_timeout_ms": 6000}
    request |= {"member_id": "", "protocol_type": "consumer", "protocols": []}
    response = {"error_code": error, "generation_id": -1, "members": []}
    response |= {"protocol_name": "", "leader": "", "member_id": given}
    line.call(at_ms, 1, ApiKey.JOIN_GROUP, 5, request, response)


def coordinator_is_still_loading(story: Story) -> None:
    """The first join of a new group is refused, since its coordinator has only just been chosen."""
    line = member(story, "app", 9_990)
    asks_for_an_id(line, 10_000, "", ErrorCode.NOT_COORDINATOR)
    asks_for_an_id(line, 12_000, "app-1")
    join(line, 12_010, "app-1", 1)
    heartbeats(line, 12_500, 29_000, "app-1", 1)


def coordinator_of_members_by_heartbeat_is_still_loading(story: Story) -> None:
    """Two members of a new group of KIP-848 join by a heartbeat that is refused on a fresh connection."""
    for number in range(2):
        line = member(story, f"app-{number}", 9_990, 2 + number)
        request = {"group_id": "readers", "member_id": f"m-{number}", "rebalance_timeout_ms": 300_000}
        request |= {"member_epoch": 0, "subscribed_topic_names": ["orders"], "topic_partitions": []}
        refused = {"error_code": ErrorCode.NOT_COORDINATOR, "member_id": f"m-{number}"}
        for at_ms, answer in ((10_000, refused), (12_000, {"member_epoch": 1, "member_id": f"m-{number}"})):
            line.call(at_ms + number, 1, ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, request, answer)


def batches_follow_one_that_a_transaction_holds_up(story: Story) -> None:
    """The transaction before is still ending: its batch is refused, and so are those under way behind it."""
    line = member(story, "bank", 9_000)
    produce(line, 9_100)
    produce(line, 10_000, error=ErrorCode.CONCURRENT_TRANSACTIONS)
    for number in range(3):
        produce(line, 10_005 + number, error=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    for number in range(8):
        produce(line, 10_100 + 200 * number)


def replicas_start_together(story: Story) -> None:
    """Five processes of one name on one host start within seconds, and each rebalances the others."""
    for number in range(5):
        at_ms = 5_000 + 1_500 * number
        line = member(story, "app", at_ms)
        asks_for_an_id(line, at_ms + 10, f"app-{number}")
        for generation in range(number, 5):
            join(line, 5_020 + 1_500 * generation, f"app-{number}", generation + 1)
        for beat in range(number, 5):
            heartbeat(line, 5_900 + 1_500 * beat, f"app-{number}", 1, ErrorCode.REBALANCE_IN_PROGRESS)
        heartbeats(line, 13_000, 29_000, f"app-{number}", 5)


def static_members_restart(story: Story) -> None:
    """Each of three static members ends without leaving, and is back within its session."""
    for number in range(3):
        stop = 8_000 + 4_000 * number
        for life, (begin, end) in enumerate(((10, stop), (stop + 2_000, 29_000))):
            line = member(story, f"pod-{number}", begin, 2 + number)
            name = f"pod-{number}-{life}"
            join(line, begin + 20, name, 1, group_instance_id=f"pod-{number}")
            heartbeats(line, begin + 500, end, name, 1)
            if end == stop:
                line.close(end)


def cooperative_rolling_deployment(story: Story) -> None:
    """Three members are replaced one by one; each change is two rounds of a cooperative rebalance."""
    rounds = [5_000, 6_000, 8_000, 9_000, 11_000, 12_000, 14_000, 15_000, 17_000, 18_000, 20_000, 21_000]
    for number in range(3):
        stop = 5_000 + 6_000 * number
        for name, begin, end in ((f"old-{number}", 10, stop), (f"new-{number}", stop + 3_000, 29_000)):
            line = member(story, name, begin, 2 + number)
            if begin > 10:
                asks_for_an_id(line, begin + 5, name)
            join(line, begin + 20, name, 1)
            for at_ms in rounds:
                if begin < at_ms < end:
                    heartbeat(line, at_ms + 100, name, 1, ErrorCode.REBALANCE_IN_PROGRESS)
                    join(line, at_ms + 150, name, rounds.index(at_ms) + 2)
            heartbeats(line, begin + 700, end, name, 2)
            if end == stop:
                leave(line, end, name)
                line.close(end + 20)


def beat(line: Line, at_ms: float, name: str, epoch: int, answered: int) -> None:
    """Send a heartbeat of the consumer protocol of KIP-848."""
    request = {"group_id": "modern", "member_id": name, "member_epoch": epoch, "rebalance_timeout_ms": 60_000}
    request |= {"subscribed_topic_names": ["orders"]} if epoch == 0 else {}
    response = {"member_id": name, "member_epoch": answered, "heartbeat_interval_ms": 5000}
    line.call(at_ms, 2, ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, request, response)


def consumers_of_kip_848(story: Story) -> None:
    """Members of a group of the new protocol join one after the other, and one of them leaves."""
    for number in range(3):
        at_ms = 1_000 + 5_000 * number
        line = member(story, f"modern-{number}", at_ms, 2 + number)
        beat(line, at_ms + 10, f"m-{number}", 0, number + 1)
        for later in range(at_ms + 3_000, 20_000 if number == 1 else 29_000, 3_000):
            epoch = min(3, 1 + later // 6_000)
            beat(line, later, f"m-{number}", epoch, epoch)
        if number == 1:
            beat(line, 20_000, "m-1", -1, -1)
            line.close(20_100)


def streams_restart(story: Story) -> None:
    """A Kafka Streams process with four threads ends without leaving, and its next one takes over."""
    for thread in range(4):
        for life, (begin, end) in enumerate(((10, 9_000), (12_000, 29_000))):
            line = member(story, f"shop-StreamThread-{thread}", begin)
            asks_for_an_id(line, begin + 5, f"{thread}-{life}")
            join(line, begin + 20 + thread, f"{thread}-{life}", life + 1)
            heartbeats(line, begin + 500, end, f"{thread}-{life}", life + 1)
            if not life:
                line.close(9_050)


def in_transaction(line: Line, at_ms: float, epoch: int, error: int = 0) -> None:
    topics = [{"name": "orders", "partitions": [0]}]
    results = [{"partition_index": 0, "partition_error_code": error}]
    request = {f"v3_and_below_{name}": value for name, value in TRANSACTION.items()}
    request |= {"v3_and_below_producer_epoch": epoch, "v3_and_below_topics": topics}
    found = [{"name": "orders", "results_by_partition": results}]
    line.call(at_ms, 1, ApiKey.ADD_PARTITIONS_TO_TXN, 1, request, {"results_by_topic_v3_and_below": found})


def initializes(line: Line, at_ms: float, epoch: int, error: int = 0) -> None:
    request = {"transactional_id": "bank", "transaction_timeout_ms": 60_000}
    response = {"error_code": error, "producer_id": 9, "producer_epoch": epoch}
    line.call(at_ms, 2, ApiKey.INIT_PRODUCER_ID, 1, request, response)


def transactional_producer_restarts(story: Story) -> None:
    """A producer is stopped within a transaction; its next life waits for the abort, and goes on."""
    for life, begin in enumerate((0, 12_000)):
        line = member(story, "payer", begin)
        if life:
            for number in range(8):
                initializes(line, begin + 10 + 100 * number, -1, ErrorCode.CONCURRENT_TRANSACTIONS)
        initializes(line, begin + 900, life)
        for at_ms in range(begin + 1_000, begin + 11_000, 1_000):
            in_transaction(line, at_ms, life)
            if at_ms != 11_000 - 1_000 or life:
                end = TRANSACTION | {"producer_epoch": life, "committed": True}
                line.call(at_ms + 400, 1, ApiKey.END_TXN, 1, end, {})
        if not life:
            line.close(10_500)


def admin_describes_everything(story: Story) -> None:
    """A dashboard describes all groups every five seconds; older groups are unknown to the new request."""
    line = member(story, "dashboard")
    groups = [f"group-{number}" for number in range(12)]
    for at_ms in range(1_000, 29_000, 5_000):
        line.call(at_ms, 3, ApiKey.METADATA, 1, {"topics": None}, {"brokers": [], "topics": []})
        for number, group in enumerate(groups):
            unknown = {"error_code": ErrorCode.GROUP_ID_NOT_FOUND, "group_id": group, "members": []}
            unknown |= {"group_state": "", "assignor_name": ""}
            request = {"group_ids": [group], "include_authorized_operations": False}
            response = {"groups": [unknown]}
            line.call(at_ms + 10 + 5 * number, 1, ApiKey.CONSUMER_GROUP_DESCRIBE, 0, request, response)


def clients_negotiate_versions(story: Story) -> None:
    """A new client finds an old broker: each new connection asks for versions twice (KIP-511)."""
    for number in range(8):
        at_ms = 1_000 + 3_000 * number
        line = member(story, f"newer-{number}", at_ms)
        request = {"client_software_name": "app", "client_software_version": "9"}
        number_of = line.ask(at_ms + 1, ApiKey.API_VERSIONS, 4, request)
        refusal = bytes([0, 0, 0, 10]) + number_of.to_bytes(4, "big") + bytes([0, 35, 0, 0, 0, 0])
        line.send(at_ms + 2, False, refusal)
        line.call(at_ms + 3, 1, ApiKey.API_VERSIONS, 2, {}, {"api_keys": []})
        produce(line, at_ms + 10)
        line.close(at_ms + 1_000)


def instances_make_sure_of_a_topic(story: Story) -> None:
    """Every instance of a service creates its topic when it starts: it is there already."""
    for number in range(6):
        at_ms = 2_000 + 3_000 * number
        line = member(story, f"service-{number}", at_ms, 2 + number)
        topic = {"name": "orders", "num_partitions": 3, "replication_factor": 3}
        topic |= {"assignments": [], "configs": []}
        there = {"name": "orders", "error_code": ErrorCode.TOPIC_ALREADY_EXISTS}
        request = {"topics": [topic], "timeout_ms": 1000}
        line.call(at_ms + 5, 3, ApiKey.CREATE_TOPICS, 2, request, {"topics": [there]})
        produce(line, at_ms + 50)


def idle_consumer(story: Story) -> None:
    """A consumer polls for ten seconds at a time, gets nothing, and is still polling at the end."""
    line = member(story, "idle")
    heartbeats(member(story, "idle"), 500, 29_000, "idle-1", 1)
    asked = {"topic": "quiet", "partitions": [{"partition": 0, "fetch_offset": 7}]}
    request = {"max_wait_ms": 10_000, "min_bytes": 1, "topics": [asked]}
    found = {"partition_index": 0, "high_watermark": 7, "records": b""}
    response = {"responses": [{"topic": "quiet", "partitions": [found]}]}
    for number in range(2):
        line.call(100 + 10_010 * number, 10_002, ApiKey.FETCH, 7, request, response)
    line.ask(20_200, ApiKey.FETCH, 7, request)


def catches_up_after_a_planned_pause(story: Story) -> None:
    """A consumer was stopped for maintenance, and reads what was written meanwhile."""
    line = member(story, "nightly")
    join(line, 50, "nightly-1", 1)
    heartbeats(line, 500, 6_000, "nightly-1", 1)
    leave(line, 6_000, "nightly-1")
    line.close(6_100)
    again = member(story, "nightly", 16_000)
    heartbeats(again, 16_500, 29_000, "nightly-2", 2)
    reader = member(story, "nightly", 16_000)
    for number in range(30):
        end = 800 + 20 * number
        fetch(reader, 16_600 + 400 * number, min(60 * number, end - 20), end, records=20)


def readers_of_one_name(story: Story) -> None:
    """Four groups read a topic from its begin, one second apart, with the default id of their library."""
    for number in range(4):
        begin = 5_000 + 1_000 * number
        line, beats = member(story, "kgo", begin), member(story, "kgo", begin)
        request = {"group_id": f"group-{number}", "generation_id": 1, "member_id": f"kgo-{number}"}
        for at_ms in range(begin + 100, 29_000, 1_000):
            beats.call(at_ms, 1, ApiKey.HEARTBEAT, 2, request, {"error_code": 0})
        for step in range(60):
            at_ms = begin + 100 + 300 * step
            offset = min(20 * step, at_ms // 20 - 20)
            fetch(line, at_ms, max(offset, 0), at_ms // 20, records=20)


STORIES = (
    readers_of_one_name,
    coordinator_is_still_loading,
    coordinator_of_members_by_heartbeat_is_still_loading,
    batches_follow_one_that_a_transaction_holds_up,
    replicas_start_together,
    static_members_restart,
    cooperative_rolling_deployment,
    consumers_of_kip_848,
    streams_restart,
    transactional_producer_restarts,
    admin_describes_everything,
    clients_negotiate_versions,
    instances_make_sure_of_a_topic,
    idle_consumer,
    catches_up_after_a_planned_pause,
)


@pytest.mark.parametrize("tell", STORIES, ids=lambda tell: tell.__name__)
def test_nothing_is_reported(tell: Callable[[Story], None], tmp_path: Path) -> None:
    story = Story()
    background(story)
    tell(story)
    summary = analyzed(story, tmp_path)
    assert [(one.cause, one.headline) for one in summary.incidents] == []
    loud = [one for one in summary.findings if one.severity is not Severity.NOTE]
    assert [(one.name, one.title, [row.detail for row in one.evidence]) for one in loud] == []
