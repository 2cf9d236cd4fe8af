"""Causes that lie with groups, transactions and positions: each is named, and not for what looks like it."""

from pathlib import Path

import pytest

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.error_codes import ErrorCode
from kdissect.report.incidents.group_causes import GROUP_CAUSES
from tests.helpers.told_capture import Story
from tests.helpers.told_groups import (
    analyzed,
    background,
    causes_of,
    fetch,
    heartbeat,
    heartbeats,
    join,
    leave,
    produce,
)
from tests.helpers.told_offsets import life
from tests.helpers.told_shares import RELEASED, share_fetch, takes_records


def member(story, host, client_id, at_ms=0.0):
    return story.connect(host, client_id=client_id, at_ms=at_ms)


def other_member(story, rejoins):
    """A member that joins again whenever its group rebalances."""
    line = member(story, "10.1.0.3", "other")
    for generation, at_ms in enumerate(rejoins, 1):
        join(line, at_ms, "other-1", generation)
    heartbeats(line, 100, 29_000, "other-1", 1)
    return line


def slow_consumer(story):
    other_member(story, [50, 9_050, 12_050])
    slow = member(story, "10.1.0.2", "slow")
    join(slow, 50, "slow-1", 1)
    heartbeats(slow, 500, 9_000, "slow-1", 1)
    leave(slow, 9_000, "slow-1")
    join(slow, 12_000, "slow-2", 3)
    heartbeats(slow, 12_500, 20_000, "slow-2", 3)
    leave(slow, 20_000, "slow-2")


def changes_its_topics(story):
    other_member(story, [50, 9_050])
    quick = member(story, "10.1.0.2", "quick")
    join(quick, 50, "quick-1", 1)
    leave(quick, 9_000, "quick-1")
    join(quick, 9_010, "quick-2", 2)
    heartbeats(quick, 9_500, 29_000, "quick-2", 2)


def session_timeout(story):
    other_member(story, [50, 15_000])
    gone = member(story, "10.1.0.2", "gone")
    join(gone, 50, "gone-1", 1)
    heartbeats(gone, 500, 10_000, "gone-1", 1)
    gone.close(10_100)


def frozen_member(story):
    other_member(story, [50, 15_000])
    frozen = member(story, "10.1.0.2", "frozen")
    join(frozen, 50, "frozen-1", 1)
    heartbeats(frozen, 500, 10_000, "frozen-1", 1)
    heartbeat(frozen, 19_000, "frozen-1", 1, ErrorCode.UNKNOWN_MEMBER_ID)
    join(frozen, 19_100, "frozen-2", 3)


def leaves_in_order(story):
    other_member(story, [50, 10_100])
    line = member(story, "10.1.0.2", "done")
    join(line, 50, "done-1", 1)
    heartbeats(line, 500, 10_000, "done-1", 1)
    leave(line, 10_050, "done-1")
    line.close(10_100)


def rebalance_loop(story):
    other_member(story, [50, *(5_050 + 3_000 * number for number in range(6))])
    for number in range(6):
        line = member(story, "10.1.0.2", "loop", 5_000 + 3_000 * number)
        join(line, 5_010 + 3_000 * number, f"loop-{number}", number + 2)
        line.close(7_000 + 3_000 * number)


def joins_of_many(story):
    other_member(story, [50, *(5_050 + 3_000 * number for number in range(4))])
    for number in range(4):
        line = member(story, f"10.1.0.{20 + number}", f"pod-{number}", 5_000 + 3_000 * number)
        join(line, 5_010 + 3_000 * number, f"pod-{number}-1", number + 2)
        heartbeats(line, 5_500 + 3_000 * number, 29_000, f"pod-{number}-1", number + 2)


def static_join(line, at_ms, member_id, generation):
    join(line, at_ms, member_id, generation, group_instance_id="pod-0")


def displaced_member(story):
    """A second member takes the instance id of the first, whose connection is returned."""
    first = member(story, "10.1.0.2", "first")
    static_join(first, 50, "first-1", 1)
    heartbeats(first, 500, 10_000, "first-1", 1)
    second = member(story, "10.1.0.4", "second", 10_000)
    static_join(second, 10_100, "second-1", 2)
    heartbeats(second, 11_000, 29_000, "second-1", 2)
    return first


def duplicate_instance_id(story):
    first = displaced_member(story)
    request = {
        "group_id": "readers",
        "generation_id": 1,
        "member_id": "first-1",
        "group_instance_id": "pod-0",
    }
    first.call(10_500, 1, ApiKey.HEARTBEAT, 3, request, {"error_code": ErrorCode.FENCED_INSTANCE_ID})


def commits_of_a_displaced_member(story):
    """The first owner ends when its commit is refused; no heartbeat tells."""
    first = displaced_member(story)
    request = {
        "group_id": "readers",
        "generation_id_or_member_epoch": 1,
        "member_id": "first-1",
        "group_instance_id": "pod-0",
        "topics": [
            {"name": "orders", "partitions": [{"partition_index": 0, "committed_offset": 7}]},
        ],
    }
    refused = {"partition_index": 0, "error_code": ErrorCode.FENCED_INSTANCE_ID}
    answer = {"topics": [{"name": "orders", "partitions": [refused]}]}
    first.call(10_500, 1, ApiKey.OFFSET_COMMIT, 7, request, answer)
    first.close(10_600)


def test_a_refused_commit_tells_of_two_members_with_one_instance_id(tmp_path):
    assert causes_of(commits_of_a_displaced_member, tmp_path)[:1] == ["duplicate_instance_id"]


def static_restart(story):
    first = member(story, "10.1.0.2", "pod")
    static_join(first, 50, "first-1", 1)
    heartbeats(first, 500, 10_000, "first-1", 1)
    first.close(10_100)
    second = member(story, "10.1.0.2", "pod", 12_000)
    static_join(second, 12_100, "second-1", 2)
    heartbeats(second, 12_500, 29_000, "second-1", 2)


PRODUCER = {"transactional_id": "bank", "producer_id": 9, "producer_epoch": 0}


def begin(line, at_ms, error=0):
    topics = [{"name": "orders", "partitions": [0]}]
    found = [
        {"name": "orders", "results_by_partition": [{"partition_index": 0, "partition_error_code": error}]}
    ]
    request = {f"v3_and_below_{name}": value for name, value in PRODUCER.items()} | {
        "v3_and_below_topics": topics
    }
    response = {"results_by_topic_v3_and_below": found}
    line.call(at_ms, 1, ApiKey.ADD_PARTITIONS_TO_TXN, 1, request, response)


def init(line, at_ms):
    request = {"transactional_id": "bank", "transaction_timeout_ms": 60_000}
    line.call(at_ms, 1, ApiKey.INIT_PRODUCER_ID, 1, request, {"producer_id": 9, "producer_epoch": 0})


def end(line, at_ms):
    line.call(at_ms, 1, ApiKey.END_TXN, 1, PRODUCER | {"committed": True}, {"error_code": 0})


def open_transaction(story):
    line = member(story, "10.1.0.2", "holder", 9_900)
    init(line, 10_000)
    begin(line, 10_010)
    produce(line, 10_020)


def ended_transactions(story):
    line = member(story, "10.1.0.2", "tidy", 9_900)
    init(line, 10_000)
    for at_ms in range(10_100, 29_000, 1000):
        begin(line, at_ms)
        end(line, at_ms + 500)


def zombie_producer(story):
    zombie = member(story, "10.1.0.2", "zombie")
    init(zombie, 10)
    begin(zombie, 20)
    end(zombie, 100)
    rival = member(story, "10.1.0.4", "rival", 9_900)
    init(rival, 10_000)
    begin(zombie, 10_500, ErrorCode.INVALID_PRODUCER_EPOCH)
    begin(rival, 10_600)
    end(rival, 10_700)


def taken_over_in_order(story):
    first = member(story, "10.1.0.2", "first")
    init(first, 10)
    begin(first, 20)
    end(first, 100)
    first.close(9_000)
    second = member(story, "10.1.0.4", "second", 9_900)
    init(second, 10_000)
    begin(second, 10_100)
    end(second, 10_200)


def poison_record(story):
    line = member(story, "10.1.0.2", "stuck", 9_900)
    for number in range(20):
        fetch(line, 10_000 + 500 * number, 18, 60)


def closes_after_each_fetch(story, size=None):
    """A consumer opens a connection for each Fetch; a response of another size is cut at what came of it."""
    member(story, "10.1.0.2", "small", 9_900)
    for number in range(8):
        at_ms = 10_000 + 1_500 * number
        line = story.connect("10.1.0.2", client_id="small", at_ms=at_ms - 10)
        fetch(line, at_ms, 18 if size else 18 + number, 60)
        if size:
            *known, payload = line.sent[-1]
            line.sent[-1] = (*known, size.to_bytes(4, "big") + payload[4:])
        line.close(at_ms + 20, reset=True)


def response_too_large(story):
    closes_after_each_fetch(story, size=60_000)


def reads_on(story):
    line = member(story, "10.1.0.2", "reader", 9_900)
    for number in range(20):
        fetch(line, 10_000 + 500 * number, 18 + number, 60)


def growing_lag(story):
    line = member(story, "10.1.0.2", "behind")
    for number in range(30):
        fetch(line, 100 + 900 * number, number, 45 * number + 10)


def catches_up(story):
    line = member(story, "10.1.0.2", "behind")
    for number in range(30):
        fetch(line, 100 + 900 * number, 60 * number, 1800)


def small_fetches(story):
    line = member(story, "10.1.0.2", "small")
    for number in range(100):
        fetch(line, 100 + 250 * number, 2 * number, 1000 + 10 * number, records=2)


def keeps_up(story):
    line = member(story, "10.1.0.2", "quick")
    for number in range(100):
        fetch(line, 100 + 250 * number, 2 * number, 2 * number + 2, records=2)


def offsets_gone(story):
    line = member(story, "10.1.0.2", "late", 9_900)
    fetch(line, 10_000, 7, -1, records=0, error=ErrorCode.OFFSET_OUT_OF_RANGE)
    for number in range(10):
        fetch(line, 10_100 + 500 * number, 5000 + number, 5100)


def refused_join(story, times=5):
    line = member(story, "10.1.0.2", "stranger", 9_900)
    request = {
        "group_id": "readers",
        "session_timeout_ms": 6000,
        "rebalance_timeout_ms": 6000,
        "member_id": "",
        "protocol_type": "consumer",
        "protocols": [],
    }
    for number in range(times):
        response = {"error_code": ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "generation_id": -1, "members": []}
        response |= {"protocol_name": "", "leader": "", "member_id": ""}
        line.call(10_000 + 1000 * number, 1, ApiKey.JOIN_GROUP, 5, request, response)


def other_kind(story, code=ErrorCode.GROUP_ID_NOT_FOUND, times=4):
    """A member of a share group whose group id a classic group has."""
    line = story.connect("10.1.0.2", client_id="sharer", at_ms=9_900)
    request = {"group_id": "readers", "member_id": "m", "member_epoch": 0, "rack_id": None}
    request |= {"subscribed_topic_names": ["orders"]}
    response = {"error_code": code, "error_message": None, "member_id": "m", "member_epoch": 1}
    response |= {"heartbeat_interval_ms": 5000, "assignment": None}
    for number in range(times):
        line.call(10_000 + 4000 * number, 1, ApiKey.SHARE_GROUP_HEARTBEAT, 1, request, response)


def own_kind(story):
    other_kind(story, ErrorCode.NONE)


def first_join(story):
    line = member(story, "10.1.0.2", "newcomer", 9_900)
    request = {"group_id": "readers", "session_timeout_ms": 6000, "rebalance_timeout_ms": 6000}
    request |= {"member_id": "", "protocol_type": "consumer", "protocols": []}
    response = {"error_code": ErrorCode.MEMBER_ID_REQUIRED, "generation_id": -1, "members": []}
    response |= {"protocol_name": "", "leader": "", "member_id": "newcomer-1"}
    line.call(10_000, 1, ApiKey.JOIN_GROUP, 5, request, response)
    join(line, 10_010, "newcomer-1", 1)
    heartbeats(line, 10_500, 29_000, "newcomer-1", 1)


def gives_records_back(story):
    line = story.connect("10.1.0.2", client_id="failing")
    takes_records(line, times=50, types=(RELEASED,), deliveries=5)


def accepts_records(story):
    """One member accepts all; another one gives back what it has when it ends."""
    takes_records(story.connect("10.1.0.2", client_id="sound"), times=50, deliveries=2)
    ending = story.connect("10.1.0.3", client_id="ending")
    share_fetch(ending, 9_000, decided=[((200, 299), (RELEASED,))])
    ending.send(9_010, True, b"", "FA")


def late_joiner(story, told=4):
    """A member that learns of a rebalance, and joins again some heartbeats later."""
    other = member(story, "10.1.0.3", "other")
    join(other, 60, "other-1", 1)
    heartbeats(other, 500, 29_000, "other-1", 1)
    busy = member(story, "10.1.0.2", "busy")
    join(busy, 50, "busy-1", 1)
    for number in range(told):
        heartbeat(busy, 3_000 + 3_000 * number, "busy-1", 1, error=ErrorCode.REBALANCE_IN_PROGRESS)
    again = 3_100 + 3_000 * told
    join(busy, again, "busy-1", 2)
    heartbeats(busy, again + 500, 29_000, "busy-1", 2)


def joins_at_once(story):
    late_joiner(story, told=1)


def commit(line, at_ms, error=0):
    topic = {"name": "orders", "partitions": [{"partition_index": 0, "committed_offset": 7}]}
    request = {"group_id": "readers", "generation_id_or_member_epoch": -1, "member_id": "", "topics": [topic]}
    found = {"name": "orders", "partitions": [{"partition_index": 0, "error_code": error}]}
    line.call(at_ms, 1, ApiKey.OFFSET_COMMIT, 7, request, {"topics": [found]})


def commits_from_outside(story, error=ErrorCode.UNKNOWN_MEMBER_ID):
    inside = member(story, "10.1.0.3", "inside")
    heartbeats(inside, 500, 29_000, "inside-1", 1)
    tool = member(story, "10.1.0.2", "tool", 9_900)
    for number in range(6):
        commit(tool, 10_000 + 1_000 * number, error)


def commits_while_nobody_is_a_member(story):
    tool = member(story, "10.1.0.2", "tool", 9_900)
    for number in range(6):
        commit(tool, 10_000 + 1_000 * number)


def topics_come(story, rounds=6):
    """Two members; one of them joins anew every 4 s, and the other one is told by its heartbeat."""
    one, other = member(story, "10.1.0.2", "one"), member(story, "10.1.0.3", "other")
    join(one, 50, "one-1", 1)
    join(other, 52, "other-1", 1)
    for number in range(rounds):
        at_ms = 4_000 * (number + 1)
        join(one, at_ms, "one-1", number + 2)
        heartbeat(other, at_ms + 400, "other-1", number + 1, error=ErrorCode.REBALANCE_IN_PROGRESS)
        join(other, at_ms + 410, "other-1", number + 2)
    heartbeats(other, 26_000, 29_000, "other-1", rounds + 1)


def one_topic_comes(story):
    topics_come(story, rounds=2)


def reads_anew(story, starts=3, commits=False):
    """A reader that begins at offset 100 after each of some starts."""
    for start in range(starts):
        begin_ms = 1_000 + 9_000 * start
        line = member(story, "10.1.0.2", "again", begin_ms - 50)
        join(line, begin_ms, f"again-{start}", 1 + start)
        for number in range(40):
            at_ms = begin_ms + 100 + 200 * number
            heartbeat(line, at_ms - 10, f"again-{start}", 1 + start)
            offset = 500 if number else 100
            fetch(line, at_ms, offset, 500, records=0 if number else 400)
            if commits:
                commit(line, at_ms + 20)
        leave(line, begin_ms + 8_200, f"again-{start}")
        line.close(begin_ms + 8_300)


def goes_back_on_purpose(story):
    reads_anew(story, starts=2, commits=True)


def loses_its_offsets(story):
    life(story, 1_000, -1, 100)
    life(story, 10_000, -1, 100)


def goes_on_where_it_committed(story):
    life(story, 1_000, -1, 100)
    life(story, 10_000, 450, 450)


CASES = {
    "offsets_lost": (loses_its_offsets, goes_on_where_it_committed),
    "offsets_not_committed": (reads_anew, goes_back_on_purpose),
    "rebalances_by_topics": (topics_come, one_topic_comes),
    "rebalance_held_up": (late_joiner, joins_at_once),
    "commit_from_outside": (commits_from_outside, commits_while_nobody_is_a_member),
    "records_released": (gives_records_back, accepts_records),
    "slow_consumer": (slow_consumer, changes_its_topics),
    "session_timeout": (session_timeout, leaves_in_order),
    "rebalance_loop": (rebalance_loop, joins_of_many),
    "duplicate_instance_id": (duplicate_instance_id, static_restart),
    "open_transaction": (open_transaction, ended_transactions),
    "zombie_producer": (zombie_producer, taken_over_in_order),
    "poison_record": (poison_record, reads_on),
    "response_too_large": (response_too_large, closes_after_each_fetch),
    "growing_lag": (growing_lag, catches_up),
    "small_fetches": (small_fetches, keeps_up),
    "offset_out_of_range": (offsets_gone, reads_on),
    "inconsistent_group_protocol": (refused_join, first_join),
    "group_kind_mixed": (other_kind, own_kind),
}


def test_every_cause_has_a_case():
    assert {cause.name for cause in GROUP_CAUSES} == CASES.keys()


@pytest.mark.parametrize("name", CASES)
def test_a_cause_comes_first_in_its_own_story(name: str, tmp_path: Path) -> None:
    assert causes_of(CASES[name][0], tmp_path)[0] == name


@pytest.mark.parametrize("name", CASES)
def test_what_looks_like_a_cause_raises_no_incident(name: str, tmp_path: Path) -> None:
    assert causes_of(CASES[name][1], tmp_path) == []


@pytest.mark.parametrize("tell", [frozen_member])
def test_a_member_that_hung_is_dated_to_its_last_request(tell, tmp_path: Path) -> None:
    story = Story()
    background(story)
    tell(story)
    summary = analyzed(story, tmp_path)
    incident = summary.incidents[0]
    assert (incident.cause, incident.subject.name) == ("session_timeout", "frozen at 10.1.0.2")
    assert abs(incident.begin_ns - summary.capture.first_time_ns - 9_500_000_000) < 10**9


def test_names_that_people_search_for_are_in_the_headline(tmp_path: Path) -> None:
    for number, (tell, words) in enumerate(
        (
            (duplicate_instance_id, ("pod-0", "readers", "second at 10.1.0.4")),
            (zombie_producer, ("bank", "zombie at 10.1.0.2", "rival at 10.1.0.4")),
            (offsets_gone, ("late at 10.1.0.2", "orders", "offset 5,000 of partition 0")),
            (poison_record, ("orders-0", "offset 18", "stuck at 10.1.0.2")),
        )
    ):
        story = Story()
        background(story)
        tell(story)
        folder = tmp_path / str(number)
        folder.mkdir()
        headline = analyzed(story, folder).incidents[0].headline
        assert all(word in headline for word in words), headline


def test_small_fetches_of_a_reader_that_soon_catches_up_are_a_note(tmp_path: Path) -> None:
    story = Story()
    background(story)
    line = member(story, "10.1.0.2", "small")
    for number in range(60):
        fetch(line, 100 + 50 * number, 2 * number, 130, records=2)
    (incident,) = analyzed(story, tmp_path).incidents
    assert (incident.cause, incident.severity) == ("small_fetches", "note")


def test_a_broker_that_asks_for_a_producer_is_not_who_was_fenced(tmp_path: Path) -> None:
    story = Story()
    background(story)
    zombie_producer(story)
    broker = member(story, "10.0.0.2", "AddPartitionsManager-client-2")
    begin(broker, 10_450, ErrorCode.INVALID_PRODUCER_EPOCH)
    incident = analyzed(story, tmp_path).incidents[0]
    assert incident.cause == "zombie_producer"
    assert incident.headline.startswith("zombie at 10.1.0.2 was fenced from transactional id ")
    assert incident.impact.clients == ("rival at 10.1.0.4", "zombie at 10.1.0.2")
