"""Connections that nobody opens or serves, and those that end in place of an error."""

from pathlib import Path

from kdissect.protocol.api_keys import ApiKey
from kdissect.report.model.incidents import Incident, Signal, SubjectKind
from tests.helpers.told_capture import Line, Story, batch
from tests.helpers.told_groups import analyzed, background, causes_of, produce

BROKERS = (("10.0.0.1", 9092), ("10.0.0.2", 9092))


def signals(story: Story, tmp_path: Path, kind: str) -> list[Signal]:
    return [one for one in analyzed(story, tmp_path).signals if one.kind == kind]


def attempt(story: Story, at_ms: float, host: str = "10.1.0.9") -> Line:
    """Try to connect, and get no answer."""
    line = story.connect(host, client_id="", at_ms=at_ms)
    del line.sent[1:]
    return line


def attempts(story: Story, times: int = 6, host: str = "10.1.0.9") -> None:
    for number in range(times):
        attempt(story, 10_000 + 2_500 * number, host)


def test_attempts_of_a_host_without_an_answer_are_told_while_its_open_connections_go_on(
    tmp_path: Path,
) -> None:
    story = Story()
    background(story)
    attempts(story)
    (signal,) = signals(story, tmp_path, "attempts_unanswered")
    assert (signal.subject.kind, signal.subject.name) == (SubjectKind.HOST, "10.1.0.9")
    assert (signal.measures, signal.end_ns) == ({"attempts": 6, "going_on": 1}, None)
    assert "6 attempts to connect to 10.0.0.1:9092 got no answer" in signal.sentence


def test_attempts_of_a_host_that_talks_to_nobody_are_no_firewall(tmp_path: Path) -> None:
    story = Story()
    background(story)
    attempts(story, host="10.1.0.7")
    assert signals(story, tmp_path, "attempts_unanswered") == []


def test_attempts_that_succeed_in_between_are_no_firewall(tmp_path: Path) -> None:
    story = Story()
    background(story)
    attempts(story)
    produce(story.connect("10.1.0.9", client_id="later", at_ms=15_000), 15_100)
    assert signals(story, tmp_path, "attempts_unanswered") == []


def newcomers(story: Story, count: int = 4, answered: int = 0, broker: tuple[str, int] = BROKERS[0]) -> None:
    """Open connections and ask; only the last ones are answered."""
    for number in range(count):
        at_ms = 10_000 + 500 * number
        line = story.connect(f"10.1.1.{number}", broker, client_id=f"new-{number}", at_ms=at_ms)
        if number >= count - answered:
            produce(line, at_ms + 10)
        else:
            line.ask(at_ms + 10, ApiKey.API_VERSIONS, 3, {})
            line.close(at_ms + 9_000)


def test_new_connections_that_wait_while_old_ones_are_served_are_told(tmp_path: Path) -> None:
    story = Story()
    background(story)
    newcomers(story)
    (signal,) = signals(story, tmp_path, "connections_unserved")
    assert (signal.subject.name, signal.measures["connections"]) == ("10.0.0.1:9092", 4)
    assert len(signal.clients) == 4
    assert 8 * 10**9 < signal.measures["longest_ns"] < 10 * 10**9


def test_a_server_that_serves_most_new_connections_is_well(tmp_path: Path) -> None:
    story = Story()
    background(story)
    newcomers(story, 8, answered=5)
    assert signals(story, tmp_path, "connections_unserved") == []


def test_a_server_that_serves_nobody_is_not_full(tmp_path: Path) -> None:
    story = Story()
    background(story, seconds=10)
    newcomers(story)
    assert signals(story, tmp_path, "connections_unserved") == []


def test_several_servers_that_serve_no_new_connection_are_one_incident(tmp_path: Path) -> None:
    story = Story()
    background(story)
    other = story.connect("10.1.0.8", BROKERS[1], client_id="other-writer")
    for at_ms in range(10, 30_000, 200):
        produce(other, at_ms)
    for broker in BROKERS:
        newcomers(story, 2, broker=broker)
    first: Incident = analyzed(story, tmp_path).incidents[0]
    assert (first.cause, first.subject.kind) == ("connections_full", SubjectKind.CLUSTER)
    assert "4 new connections waited up to 9.0" in first.headline


def writes_without_acks(story: Story, by_client: bool = False) -> None:
    """A producer with acks=0 of which each connection ends after a record."""
    data = {"index": 0, "records": batch(0)}
    request = {"acks": 0, "timeout_ms": 1000, "topic_data": [{"name": "audit", "partition_data": [data]}]}
    for number in range(8):
        at_ms = 10_000 + 1_500 * number
        line = story.connect("10.1.0.3", client_id="hasty", at_ms=at_ms)
        line.call(at_ms + 1, 1, ApiKey.METADATA, 1, {"topics": None}, {"brokers": [], "topics": []})
        line.ask(at_ms + 5, ApiKey.PRODUCE, 7, request)
        line.close(at_ms + 8, by_client=by_client)


def test_connections_that_servers_close_after_records_without_acks_are_told(tmp_path: Path) -> None:
    story = Story()
    background(story)
    writes_without_acks(story)
    (signal,) = signals(story, tmp_path, "closed_after_acks_none")
    assert (signal.subject.name, signal.topics) == ("hasty at 10.1.0.3", ("audit",))
    assert signal.measures["connections"] == 8


def test_a_producer_that_closes_its_own_connections_is_none(tmp_path: Path) -> None:
    story = Story()
    background(story)
    writes_without_acks(story, by_client=True)
    assert signals(story, tmp_path, "closed_after_acks_none") == []


def test_each_is_the_first_cause_of_its_story(tmp_path: Path) -> None:
    stories = {
        "attempts_unanswered": attempts,
        "connections_full": newcomers,
        "unacknowledged_refused": writes_without_acks,
    }
    for name, tell in stories.items():
        folder = tmp_path / name
        folder.mkdir()
        assert causes_of(tell, folder)[0] == name
