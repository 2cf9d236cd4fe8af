"""Servers that are slow or stand still, told as stories of three brokers, and what only looks like them."""

import random
from pathlib import Path

import pytest

from kdissect.protocol.api_keys import ApiKey
from kdissect.report.incidents.cause import Case, SignalIndex
from kdissect.report.incidents.slow_server_causes import broker_slow
from kdissect.report.model.findings import Severity
from kdissect.report.model.incidents import Signal, SubjectKind
from kdissect.report.render.header import header
from kdissect.report.render.terminal import Terminal
from kdissect.report.signals.make_signal import make_signal
from tests.helpers.loud_incidents import seconds_of, warnings
from tests.helpers.told_capture import Story
from tests.helpers.told_cluster import NODES, Took, cluster, name_of, replicate
from tests.helpers.told_groups import analyzed, heartbeat, produce

MOMENT_S = 15
SECOND, MS = 10**9, 10**6


def since(moment_s: float, slow: dict[int, float], usual: float = 3, until_s: float = 99) -> Took:
    """Return latencies that change at a moment for some brokers."""
    return lambda node, at_ms: (
        slow.get(node, usual) + at_ms % 2 if 1000 * moment_s <= at_ms < 1000 * until_s else usual + at_ms % 2
    )


def pause(node: int, begin_s: float, lasted_s: float) -> Took:
    """Return latencies of a broker that does nothing for a while, and answers all requests afterwards."""
    begin, end = 1000 * begin_s, 1000 * (begin_s + lasted_s)
    return lambda at_node, at_ms: (
        end - at_ms + 2 if at_node == node and begin <= at_ms < end else 3 + at_ms % 2
    )


def test_a_broker_that_is_slow_since_a_moment(tmp_path: Path) -> None:
    story, _ = cluster(since(MOMENT_S, {2: 80}))
    (incident,) = warnings(story, tmp_path)
    assert (incident.cause, incident.subject.name) == ("broker_slow", name_of(2))
    assert seconds_of(incident.begin_ns) == pytest.approx(MOMENT_S, abs=0.5)
    assert incident.headline.endswith("for 3 of its 3 clients")
    assert incident.speaks_against == ()


def test_a_broker_that_stutters_on_a_noisy_host(tmp_path: Path) -> None:
    """It stands still again and again, and half of its requests are as quick as before."""
    noise = random.Random(5)

    def took(node: int, at_ms: float) -> float:
        usual = 6 * 2 ** noise.gauss(0, 2)
        stutters = node == 2 and at_ms >= 1000 * MOMENT_S
        return usual + (max(0, noise.uniform(-300, 600)) if stutters else 0)

    (incident,) = warnings(cluster(took, seconds=28, every_ms=550)[0], tmp_path)
    assert (incident.cause, incident.subject.name) == ("broker_slow", name_of(2))


def test_a_capture_of_one_host_of_clients_says_that_no_other_client_shows_it(tmp_path: Path) -> None:
    story, _ = cluster(since(MOMENT_S, {2: 80}), at_host="10.1.0.9")
    summary = analyzed(story, tmp_path)
    (incident,) = (one for one in summary.incidents if one.severity is not Severity.NOTE)
    assert incident.headline.endswith("for 3 of its 3 clients, all at host 10.1.0.9")
    assert "that host may be the reason" in incident.speaks_against[-1]
    assert any(", all at 10.1.0.9 " in line for line in header(summary, Terminal(300)))


@pytest.mark.parametrize(("others_ms", "found"), [(1, ["broker_slow"]), (4, [])], ids=["alone", "all"])
def test_a_small_rise_counts_if_the_other_brokers_are_steady(
    others_ms: float, found: list[str], tmp_path: Path
) -> None:
    """A busy host slows its neighbours, too."""
    took = since(MOMENT_S, {2: 14, 1: others_ms, 3: others_ms}, usual=1)
    story, _ = cluster(took)
    for node in NODES:
        member = story.connect("10.1.0.7", (f"10.0.0.{node}", 9092), client_id=f"member-{node}")
        for at_ms in range(200, 30_000, 300):
            heartbeat(member, at_ms, "m", 1, took_ms=took(node, at_ms))
    assert [one.cause for one in warnings(story, tmp_path)] == found


@pytest.mark.parametrize(
    ("slow", "until_s"),
    [({1: 150, 2: 90, 3: 110}, 99), ({1: 90, 2: 250, 3: 60}, 22), ({2: 80}, MOMENT_S + 3)],
    ids=["busy host", "busy host for a while", "for a moment"],
)
def test_brokers_that_are_slow_together_or_shortly_are_no_warning(
    slow: dict[int, float], until_s: float, tmp_path: Path
) -> None:
    """A host on which all brokers run, or the one that captures, may be busy."""
    took = since(MOMENT_S, slow, until_s=until_s)
    story, _ = cluster(took)
    for node in NODES:
        member = story.connect("10.1.0.7", (f"10.0.0.{node}", 9092), client_id=f"member-{node}")
        for at_ms in range(200, 30_000, 500):
            heartbeat(member, at_ms, "m", 1, took_ms=took(node, at_ms))
    assert warnings(story, tmp_path) == []


def test_slowness_that_the_capture_began_with_is_its_normal(tmp_path: Path) -> None:
    def took(node: int, at_ms: float) -> float:
        return 80 + node if at_ms < 8_000 or (node == 2 and at_ms > 20_000) else 3 + node

    assert warnings(cluster(took)[0], tmp_path) == []


def test_a_broker_that_is_slow_from_the_beginning(tmp_path: Path) -> None:
    """The capture begins in the middle of the incident."""
    story, _ = cluster(since(0, {3: 90}), seconds=20)
    (incident,) = warnings(story, tmp_path)
    assert (incident.cause, incident.subject.name) == ("broker_slow", name_of(3))
    assert "since the capture began" in incident.headline


def test_quick_requests_of_another_kind_do_not_hide_that_a_broker_is_slow(tmp_path: Path) -> None:
    story, _ = cluster(since(MOMENT_S, {2: 60}), every_ms=400)
    other = story.connect("10.1.0.8", ("10.0.0.2", 9092), client_id="asks-much")
    for at_ms in range(300, 30_000, 50):
        other.call(at_ms, 1, ApiKey.FIND_COORDINATOR, 1, {"key": "g"}, {"node_id": 1, "host": "10.0.0.1"})
    (incident,) = warnings(story, tmp_path)
    assert (incident.cause, incident.subject.name) == ("broker_slow", name_of(2))


def more_requests(story: Story, node: int, begin_s: float, took_ms: float) -> None:
    for number in range(4):
        line = story.connect("10.1.0.9", (f"10.0.0.{node}", 9092), client_id=f"loader-{number}")
        for at_ms in range(int(1000 * begin_s) + number, 30_000, 100):
            produce(line, at_ms, took_ms=took_ms, partition=node)


def test_a_broker_that_is_overloaded_by_a_new_client(tmp_path: Path) -> None:
    story, _ = cluster(since(MOMENT_S, {1: 90}))
    more_requests(story, 1, MOMENT_S, 90)
    incident = warnings(story, tmp_path)[0]
    assert (incident.cause, incident.subject.name) == ("broker_overloaded", name_of(1))
    assert "its requests went from" in incident.headline
    assert "a second, most of them from loader-0 at 10.1.0.9, loader-1 at 10.1.0.9" in incident.headline


def test_a_broker_that_has_more_requests_and_is_as_quick_is_not_overloaded(tmp_path: Path) -> None:
    story, _ = cluster(since(MOMENT_S, {}))
    more_requests(story, 1, MOMENT_S, 4)
    assert warnings(story, tmp_path) == []


@pytest.mark.parametrize("lasted_s", [2.0, 8.0])
def test_a_broker_that_stood_still_and_came_back(lasted_s: float, tmp_path: Path) -> None:
    story, _ = cluster(pause(3, MOMENT_S, lasted_s))
    incident = warnings(story, tmp_path)[0]
    assert (incident.cause, incident.subject.name) == ("broker_frozen", name_of(3))
    assert seconds_of(incident.begin_ns) == pytest.approx(MOMENT_S, abs=0.3)
    assert seconds_of(incident.end_ns) == pytest.approx(MOMENT_S + lasted_s, abs=0.3)


@pytest.mark.parametrize(("reaction_ms", "found"), [(1.5, ["broker_frozen"]), (8, [])], ids=["calm", "busy"])
def test_a_pause_of_two_seconds_counts_if_the_other_brokers_are_quick(
    reaction_ms: float, found: list[str], tmp_path: Path
) -> None:
    """Brokers that need long between replica fetches have a busy host, whose processes pause for as long."""
    took = pause(3, MOMENT_S, 2)
    story, _ = cluster(took)
    replicate(story, lambda node, leader, at_ms: (30 + (took(leader, at_ms) or 0), reaction_ms))
    assert [one.cause for one in warnings(story, tmp_path)] == found


def rise(**more: int) -> Signal:
    """Return latency of a broker that went from 4 to 200 ms for six seconds."""
    measures = {"before_ns": 4 * MS, "after_ns": 200 * MS, "own_before_ns": MS, "own_after_ns": 40 * MS}
    measures |= {"times_1000": 0, "rival_times_1000": 0, "rose": 3, "present": 3, "api_key": 0}
    broker = (SubjectKind.SERVER, name_of(2))
    return make_signal("latency_rose", broker, (10 * SECOND, 16 * SECOND), "…", measures=measures | more)


@pytest.mark.parametrize(("silent_ms", "is_told"), [(500, True), (1_200, False)], ids=["slow", "a pause"])
def test_the_time_of_a_pause_is_no_time_of_slowness(silent_ms: int, is_told: bool) -> None:
    """A pause that is too short to be told makes requests slow that wait behind it."""
    rose, span = rise(), (11 * SECOND, 12 * SECOND)
    silent = {"silent_ns": silent_ms * MS}
    paused = make_signal("server_silent", (SubjectKind.SERVER, name_of(2)), span, "…", measures=silent)
    case = Case(rose, SignalIndex((rose, paused)), (0, 30 * SECOND))
    assert (broker_slow(case) is not None) == is_told


@pytest.mark.parametrize(
    ("reaction_ms", "rivals_ms", "is_told"),
    [(13, 8, False), (30, 8, True), (13, 2, True)],
    ids=["busy host", "slow", "others are quick"],
)
def test_a_broker_is_slow_if_it_is_slower_than_a_busy_host(
    reaction_ms: int, rivals_ms: int, is_told: bool
) -> None:
    reaction = {"reaction_before_ns": 1_500_000 * min(reaction_ms, 1), "reaction_after_ns": reaction_ms * MS}
    rivals = {"rival_reaction_before_ns": rivals_ms * MS // 2, "rival_reaction_after_ns": rivals_ms * MS}
    rose = rise(**reaction, **rivals)
    case = Case(rose, SignalIndex((rose,)), (0, 30 * SECOND))
    assert (broker_slow(case) is not None) == is_told


@pytest.mark.parametrize(
    ("until_s", "others_began_slow", "found"),
    [(21, True, []), (21, False, ["broker_slow"]), (27, True, ["broker_slow"])],
    ids=["usual", "not usual", "longer than usual"],
)
def test_a_spell_like_that_of_another_broker_before_is_usual(
    until_s: float, others_began_slow: bool, found: list[str], tmp_path: Path
) -> None:
    """Brokers of a busy host become slow for seconds, one after the other."""
    slow = since(MOMENT_S, {2: 80}, until_s=until_s)
    before = since(4, {3: 60}, until_s=8) if others_began_slow else since(99, {})
    story, _ = cluster(lambda node, at_ms: slow(node, at_ms) if at_ms > 10_000 else before(node, at_ms))
    assert [one.cause for one in warnings(story, tmp_path)] == found


def test_the_only_connection_of_a_server_shows_that_it_stood_still(tmp_path: Path) -> None:
    story = Story()
    line = story.connect(client_id="only")
    for at_ms in (*range(10, 10_000, 200), *range(18_100, 25_000, 200)):
        produce(line, at_ms, offset=at_ms)
    produce(line, 10_010, took_ms=8_000, offset=10_010)
    (incident,) = warnings(story, tmp_path)
    assert incident.cause == "broker_frozen"
    assert incident.confidence < 0.8


def test_a_broker_that_stood_still_when_the_capture_began(tmp_path: Path) -> None:
    story, _ = cluster(pause(2, 0, 8))
    (incident,) = warnings(story, tmp_path)
    assert (incident.cause, incident.subject.name) == ("broker_frozen", name_of(2))


def test_a_short_pause_is_no_warning(tmp_path: Path) -> None:
    story, _ = cluster(pause(3, MOMENT_S, 0.7))
    assert warnings(story, tmp_path) == []


def test_pauses_of_all_brokers_at_all_times_are_normal_for_the_host(tmp_path: Path) -> None:
    pauses = [pause(node, 4 + 8 * number, 1.6 + 0.3 * number) for number, node in enumerate(NODES)]

    def took(node: int, at_ms: float) -> float:
        return max(one(node, at_ms) or 0 for one in pauses)

    assert warnings(cluster(took)[0], tmp_path) == []
