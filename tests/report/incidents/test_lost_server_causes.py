"""Servers that died or are down, told as stories of three brokers, and what only looks like them."""

from pathlib import Path

import pytest

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.error_codes import ErrorCode
from tests.helpers.loud_incidents import seconds_of, warnings
from tests.helpers.told_capture import Story
from tests.helpers.told_cluster import (
    PRODUCERS,
    ask_controller,
    ask_for_vote,
    cluster,
    end_together,
    heartbeat,
    name_of,
    refuse,
)
from tests.helpers.told_groups import analyzed, produce
from tests.helpers.told_metadata import tell

MOMENT_S = 15


def test_two_brokers_that_die_one_after_the_other(tmp_path: Path) -> None:
    at_s = {2: 8, 3: 18}
    story, lines = cluster(lambda node, at_ms: None if at_ms > 1000 * at_s.get(node, 99) - 40 else 3)
    for node, second in at_s.items():
        end_together(lines, node, 1000 * second)
        refuse(story, node, 1000 * second + 20, 30_000)
    found = [(one.cause, one.subject.name) for one in warnings(story, tmp_path)]
    assert found == [("broker_killed", name_of(2)), ("broker_killed", name_of(3))]


def dies(node: int, at_s: float, length_s: float) -> Story:
    """Return a story in which a broker dies with requests under way, and refuses attempts afterwards."""
    story, lines = cluster(
        lambda at_node, at_ms: None if at_node == node and at_ms > 1000 * at_s - 40 else 3, seconds=length_s
    )
    end_together(lines, node, 1000 * at_s)
    refuse(story, node, 1000 * at_s + 20, 1000 * length_s)
    return story


@pytest.mark.parametrize(("at_s", "length_s"), [(MOMENT_S, 30), (18.5, 20), (2, 5)])
def test_a_broker_that_died(at_s: float, length_s: float, tmp_path: Path) -> None:
    """In the midst of a capture, shortly before its end, and in a short one."""
    incident = warnings(dies(2, at_s, length_s), tmp_path)[0]
    assert (incident.cause, incident.subject.name) == ("broker_killed", name_of(2))
    assert seconds_of(incident.begin_ns) == pytest.approx(at_s, abs=0.3)
    assert "until the end of the capture" in incident.headline


def ask_for_shutdown(story: Story, at_ms: float, node: int = 2) -> None:
    """Have a broker ask the controller, which is broker 1."""
    ask_controller(story.connect(f"10.0.0.{node}", ("10.0.0.1", 9092), client_id="anything"), at_ms, node)


@pytest.mark.parametrize(("node", "cause"), [(2, "broker_stopped"), (3, "broker_killed")])
def test_a_broker_that_asked_the_controller_for_its_shutdown(node: int, cause: str, tmp_path: Path) -> None:
    """Brokers with ZooKeeper ask, and end so soon that no client learns of it before."""
    story = dies(2, MOMENT_S, 30)
    ask_for_shutdown(story, 1000 * MOMENT_S - 30, node)
    incident = warnings(story, tmp_path)[0]
    assert (incident.cause, incident.subject.name) == (cause, name_of(2))
    assert ("it asked for its shutdown" in incident.speaks_for) == (cause == "broker_stopped")


@pytest.mark.parametrize(("wants_end", "cause"), [(True, "broker_stopped"), (False, "broker_killed")])
def test_a_broker_that_asked_for_its_shutdown_in_a_heartbeat(
    wants_end: bool, cause: str, tmp_path: Path
) -> None:
    """Brokers with KRaft send heartbeats to a controller that is no broker, and ask in one of them."""
    story = dies(2, MOMENT_S, 30)
    line = story.connect("10.0.0.2", ("10.0.0.9", 9093), client_id="2")
    for at_ms in range(1_000, 1000 * MOMENT_S - 1_000, 2_000):
        heartbeat(line, at_ms, 2, wants_end=False)
    for at_ms in (1000 * MOMENT_S - 900, 1000 * MOMENT_S - 30):
        heartbeat(line, at_ms, 2, wants_end)
    incident = warnings(story, tmp_path)[0]
    assert (incident.cause, incident.subject.name) == (cause, name_of(2))
    assert ("it asked for its shutdown" in incident.speaks_for) == wants_end
    assert seconds_of(incident.begin_ns) == pytest.approx(MOMENT_S - 0.9 * wants_end, abs=0.05)


def test_a_broker_that_dies_after_it_was_stopped_and_is_back(tmp_path: Path) -> None:
    """Its second end is not the one that it asked for."""
    story, lines = cluster(lambda node, at_ms: None if node == 2 and at_ms > 9_960 else 3, seconds=60)
    ask_for_shutdown(story, 9_970)
    for number, client in enumerate(PRODUCERS):
        lines[client, 2].close(10_000 + number / 10, by_client=False)
        line = story.connect(f"10.1.0.{number + 1}", ("10.0.0.2", 9092), client_id=client, at_ms=20_100)
        for at_ms in range(20_200, 39_900, 150):
            produce(line, at_ms, took_ms=3, partition=2, offset=at_ms)
        line.ask(39_999, 3, 1, {"topics": []})
        line.close(40_000 + number / 10, by_client=False, reset=True)
    refuse(story, 2, 10_020, 20_000)
    refuse(story, 2, 40_020, 60_000)
    found = [(one.cause, one.subject.name) for one in warnings(story, tmp_path)]
    assert sorted(found) == [("broker_killed", name_of(2)), ("broker_stopped", name_of(2))]


@pytest.mark.parametrize(
    ("asked_s", "cause", "headline"),
    [
        (0, "broker_killed", "died at"),
        (40, "broker_stopped", "was stopped at"),
    ],
)
def test_a_broker_with_one_connection_that_asked_for_its_end_long_before(
    asked_s: float, cause: str, headline: str, tmp_path: Path
) -> None:
    """The controller let it wait for longer than a handover takes."""
    story, _ = cluster(lambda node, _: None if node == 3 else 3, seconds=80)
    story.lines = [line for line in story.lines if line.server[0] != "10.0.0.3"]
    line = story.connect("10.1.0.1", ("10.0.0.3", 9092), client_id=PRODUCERS[0], at_ms=10)
    for at_ms in range(50, 60_000, 150):
        produce(line, at_ms, took_ms=3, partition=3, offset=at_ms)
    line.close(60_001, by_client=False)
    refuse(story, 3, 60_100, 80_000)
    if asked_s:
        ask_for_shutdown(story, 1000 * asked_s, 3)
    incident = warnings(story, tmp_path)[0]
    assert (incident.cause, incident.subject.name) == (cause, name_of(3))
    assert f"{headline} " in incident.headline


def test_heartbeats_that_the_next_controller_refuses_follow_the_end_of_the_one_before(tmp_path: Path) -> None:
    """Brokers ask a controller that is not the active one yet."""
    story = dies(2, MOMENT_S, 30)
    line = story.connect("10.0.0.1", ("10.0.0.3", 9093), client_id="1", at_ms=1000 * MOMENT_S + 100)
    for at_ms in range(1000 * MOMENT_S + 200, 1000 * MOMENT_S + 1_500, 100):
        heartbeat(line, at_ms, 1, wants_end=False, error=ErrorCode.NOT_CONTROLLER)
    (incident,) = warnings(story, tmp_path)
    assert incident.cause == "broker_killed"


def test_a_controller_that_others_call_by_its_node_id_has_it_in_its_name(tmp_path: Path) -> None:
    """It does not lead, so no response names it."""
    story, _ = cluster(lambda *_: 3, seconds=30)
    for number, follower in enumerate((4, 6, 7)):
        line = story.connect(f"10.0.1.{follower}", ("10.0.1.5", 9093), client_id=f"raft-client-{follower}")
        for at_ms in range(100 + number, 1000 * MOMENT_S - 200, 500):
            ask_for_vote(line, at_ms, 5)
        line.ask(1000 * MOMENT_S - 1, ApiKey.METADATA, 1, {"topics": []})
        line.close(1000 * MOMENT_S + number / 10, by_client=False, reset=True)
        for at_ms in range(1000 * MOMENT_S + 50 + number, 30_000, 700):
            ends = f"10.0.1.{follower}", ("10.0.1.5", 9093)
            story.connect(*ends, client_id=f"raft-client-{follower}", at_ms=at_ms, accepted=False)
    incident = warnings(story, tmp_path)[0]
    assert (incident.cause, incident.subject.name) == ("broker_killed", "controller 5 (10.0.1.5:9093)")
    assert incident.headline.startswith("Controller 5 (10.0.1.5:9093) died at ")


def test_clients_that_close_their_connections_in_the_midst_of_requests_are_no_death(tmp_path: Path) -> None:
    """They end in good order, and each is seen at another broker for a moment more."""
    story, lines = cluster(lambda node, at_ms: None if node == 2 and at_ms > 14_960 else 3, seconds=15.2)
    for number, client in enumerate(PRODUCERS):
        lines[client, 2].ask(14_999, ApiKey.METADATA, 1, {"topics": []})
        lines[client, 2].close(15_000 + number / 10)
    assert "broker_killed" not in {one.cause for one in analyzed(story, tmp_path).incidents}


def test_a_broker_that_was_gone_before_the_capture_began(tmp_path: Path) -> None:
    story, _ = cluster(lambda node, _: None if node == 2 else 3, seconds=20)
    story.lines = [line for line in story.lines if line.server[0] != "10.0.0.2"]
    refuse(story, 2, 100, 20_000)
    incident = warnings(story, tmp_path)[0]
    assert (incident.cause, incident.subject.name) == ("broker_down", name_of(2))
    assert "is down since the capture began or before: 120 attempts" in incident.headline


@pytest.mark.parametrize(("at_ms", "follows"), [(8_000, True), (45_000, False)])
def test_partitions_that_move_long_after_a_broker_was_down(
    at_ms: float, follows: bool, tmp_path: Path
) -> None:
    """It was started after the capture was, and leads again until something else happens."""
    story, lines = cluster(lambda node, _: None if node == 2 else 3, seconds=60)
    story.lines = [line for line in story.lines if line.server[0] != "10.0.0.2"]
    refuse(story, 2, 100, 6_000)
    again = story.connect("10.1.0.1", ("10.0.0.2", 9092), client_id=PRODUCERS[0], at_ms=6_500)
    for produced_ms in range(6_600, 60_000, 150):
        produce(again, produced_ms, took_ms=3, partition=2, offset=produced_ms)
    for told_ms, leader in ((6_800, 2), (at_ms, 3)):
        tell(lines[PRODUCERS[1], 1], told_ms, "orders", {0: (leader, 5 + leader, (1, 2, 3))})
    down = next(one for one in analyzed(story, tmp_path).incidents if one.cause == "broker_started")
    moved = f"1 partition moved from {name_of(2)} to {name_of(3)}"
    assert any(moved in told for told in down.consequences) == follows


def test_a_port_at_which_nobody_listens_is_no_broker_that_is_down(tmp_path: Path) -> None:
    """A client has a wrong port in its settings; the broker at that host serves the others."""
    story, _ = cluster(lambda node, at_ms: 3)
    for at_ms in range(10_000, 25_000, 1_000):
        story.connect("10.1.0.9", ("10.0.0.1", 9999), at_ms=at_ms, accepted=False)
    (incident,) = warnings(story, tmp_path)
    assert (incident.cause, incident.subject.name) == ("broker_down", "10.0.0.1:9999")
    assert incident.headline.startswith("Nobody listens at 10.0.0.1:9999, since ")
    assert "15 attempts of host 10.1.0.9 to connect refused until the end" in incident.headline


@pytest.mark.parametrize(("host", "causes"), [(2, {"broker_killed"}), (3, {"broker_killed", "broker_down"})])
def test_a_port_that_was_hardly_used_dies_with_the_broker_of_its_host(
    host: int, causes: set[str], tmp_path: Path
) -> None:
    """A broker that is a controller, too: the other controllers try to reach it now."""
    story = dies(2, MOMENT_S, 30)
    for at_ms in range(1000 * MOMENT_S + 2_000, 29_000, 1_000):
        story.connect("10.0.0.1", (f"10.0.0.{host}", 9093), at_ms=at_ms, accepted=False)
    assert {one.cause for one in warnings(story, tmp_path)} == causes


def at_localhost(story: Story) -> Story:
    """Return a story whose servers are at ports of localhost: 9091, 9092, ..."""
    for line in story.lines:
        host, port = line.server
        line.server = ("127.0.0.1", port if port != 9092 else 9090 + int(host.rpartition(".")[2]))
    return story


@pytest.mark.parametrize(
    ("begin_ms", "causes"),
    [(2_000, {"broker_killed"}), (-100, None), (11_000, {"broker_killed", "broker_down"})],
)
def test_an_unused_port_of_localhost_belongs_to_the_only_server_that_ended_just_before(
    begin_ms: int, causes: set[str] | None, tmp_path: Path
) -> None:
    """Many brokers may be there: attempts that begin before its end, or long after, are not about it."""
    story = at_localhost(dies(2, MOMENT_S, 30))
    for at_ms in range(1000 * MOMENT_S + begin_ms, 29_900, 1_000):
        story.connect("10.0.0.1", ("127.0.0.1", 9193), at_ms=at_ms, accepted=False)
    found = {one.cause for one in warnings(story, tmp_path)}
    assert found == (causes or {"broker_killed", "broker_down"})


AT_LOCALHOST = {
    "brokers": [{"node_id": node, "host": "127.0.0.1", "port": 9090 + node} for node in (1, 2, 3)],
    "controller_id": 1,
    "topics": [],
}


@pytest.mark.parametrize(("several", "later_ms"), [(False, 2_000), (True, 2_000), (False, 0), (True, 0)])
@pytest.mark.parametrize(("client_id", "count"), [("raft-client-1", 1), ("1", 1), ("shop", 2)])
def test_a_port_of_localhost_at_which_only_brokers_talk_ends_with_the_broker(
    client_id: str, count: int, several: bool, later_ms: int, tmp_path: Path
) -> None:
    """A node that is a controller, too, ends as such a moment later; others may use a port for something."""
    story = at_localhost(dies(2, MOMENT_S, 30))
    told = story.connect("10.1.0.1", ("127.0.0.1", 9091), client_id=PRODUCERS[0], at_ms=50)
    told.call(60, 1, ApiKey.METADATA, 1, {"topics": None}, AT_LOCALHOST)
    end_ms = 1000 * MOMENT_S + later_ms
    for number in range(1 + several):
        line = story.connect(f"10.0.0.{1 + number}", ("127.0.0.1", 9193), client_id=client_id, at_ms=20)
        for at_ms in range(100, end_ms - 100, 500):
            line.call(at_ms, 2, ApiKey.METADATA, 1, {"topics": None}, AT_LOCALHOST)
        line.close(end_ms + number, by_client=False)
    for at_ms in range(end_ms + 100, 30_000, 1_000):
        story.connect("10.0.0.1", ("127.0.0.1", 9193), at_ms=at_ms, accepted=False)
    headlines = sorted(one.headline for one in warnings(story, tmp_path))
    if count > 1 and not later_ms:
        assert headlines[0].startswith("127.0.0.1:9193 and broker 2 (127.0.0.1:9092) died together at ")
    else:
        assert len(headlines) == count
        assert headlines[-1].startswith("Broker 2 (127.0.0.1:9092) died at ")


def test_a_server_that_nobody_tries_to_reach_any_more_may_be_back_before_it_is_seen(tmp_path: Path) -> None:
    story = dies(2, MOMENT_S, 20)
    again = story.connect("10.1.0.1", ("10.0.0.2", 9092), client_id=PRODUCERS[0], at_ms=45_000)
    produce(again, 45_010, took_ms=3, partition=2, offset=1)
    incident = warnings(story, tmp_path)[0]
    assert "died at" in incident.headline
    assert "and was back within 30.0s: " in incident.headline


def test_attempts_that_cease_long_before_the_end_do_not_last_until_then(tmp_path: Path) -> None:
    story, lines = cluster(lambda node, at_ms: None if node == 2 and at_ms > 7_960 else 3)
    end_together(lines, 2, 8_000)
    refuse(story, 2, 8_020, 12_000)
    incident = warnings(story, tmp_path)[0]
    assert "24 attempts to connect refused, the last at " in incident.headline


def test_a_single_broker_with_one_client_that_dies(tmp_path: Path) -> None:
    story = Story()
    line = story.connect(client_id="only")
    for at_ms in range(10, 12_000, 200):
        produce(line, at_ms, offset=at_ms)
    line.close(12_001, by_client=False, reset=True)
    for at_ms in range(12_100, 20_000, 400):
        story.connect(client_id="only", at_ms=at_ms, accepted=False)
    incident = warnings(story, tmp_path)[0]
    assert incident.cause in ("broker_killed", "broker_down")
    assert "10.0.0.1:9092" in incident.headline
    assert seconds_of(incident.begin_ns) == pytest.approx(12, abs=0.3)


def test_connections_that_end_together_while_new_ones_are_accepted_are_no_death(tmp_path: Path) -> None:
    """A box on the way resets them, or the clients do: the broker itself serves on."""
    story, lines = cluster(lambda node, at_ms: None if node == 2 and at_ms > 14_960 else 3)
    for number, client in enumerate(PRODUCERS):
        lines[client, 2].ask(14_999, ApiKey.METADATA, 1, {"topics": []})
        lines[client, 2].close(15_000 + number / 10, reset=True)
        again = story.connect(f"10.1.0.{number + 1}", ("10.0.0.2", 9092), client_id=client, at_ms=15_050)
        for at_ms in range(15_100, 30_000, 200):
            produce(again, at_ms, partition=2, offset=at_ms)
    (incident,) = analyzed(story, tmp_path).incidents
    assert (incident.cause, incident.subject.name) == ("connections_lost", name_of(2))
    assert "3 connections to broker 2 (10.0.0.2:9092) ended together at" in incident.headline
    assert "with 3 requests under way, and the next connection to it began 50.0ms later" in incident.headline


def test_connections_that_ended_long_before_a_broker_died_do_not_date_its_end(tmp_path: Path) -> None:
    """Clients close the connections on which they learnt the addresses of all brokers."""
    story, lines = cluster(lambda node, at_ms: None if node == 3 and at_ms > 11_950 else 3)
    for number, client in enumerate(PRODUCERS):
        first = story.connect(f"10.1.0.{2 + number}", ("10.0.0.3", 9092), client_id=client)
        first.call(20, 1, ApiKey.METADATA, 1, {"topics": []}, {"brokers": [], "topics": []})
        first.close(30)
        lines[client, 3].ask(11_999, 3, 1, {"topics": []})
        lines[client, 3].close(12_000 + number / 10, by_client=False, reset=True)
    refuse(story, 3, 12_020, 30_000)
    (incident,) = warnings(story, tmp_path)
    assert (incident.cause, incident.subject.name) == ("broker_killed", name_of(3))
    assert seconds_of(incident.begin_ns) == pytest.approx(12, abs=0.1)
