"""Servers that are not there yet when the capture begins: those that come up, and those that never do."""

from pathlib import Path

import pytest

from kdissect.protocol.api_keys import ApiKey
from kdissect.report.model.findings import Severity
from kdissect.report.model.incidents import Incident
from tests.helpers.loud_incidents import seconds_of
from tests.helpers.told_capture import Story
from tests.helpers.told_cluster import METADATA, NODES, PRODUCERS, cluster, name_of, refuse
from tests.helpers.told_groups import analyzed, produce

REFUSED_UNTIL_S = {1: 6, 2: 11, 3: 6.2}


def down(story: Story, tmp_path: Path) -> dict[str, Incident]:
    """Return the incidents of servers at which nobody listens, by cause."""
    found = [one for one in analyzed(story, tmp_path).incidents if one.cause.startswith("broker_")]
    assert len({one.cause for one in found}) == len(found)
    return {one.cause: one for one in found}


def serve(story: Story, node: int, begin_s: float) -> None:
    """Have a broker serve all producers from a time on."""
    for number, client in enumerate(PRODUCERS):
        host = f"10.1.0.{number + 1}"
        line = story.connect(host, (f"10.0.0.{node}", 9092), client_id=client, at_ms=1000 * begin_s)
        line.call(1000 * begin_s + 1, 2, ApiKey.METADATA, 1, {"topics": None}, METADATA)
        for at_ms in range(int(1000 * begin_s) + 10 + number, 30_000, 150):
            produce(line, at_ms, took_ms=3, partition=node, offset=at_ms)


def starting(never: int = 0) -> Story:
    """Return a story of a cluster that is started while clients try to connect; a broker may stay away."""
    story = Story()
    for node in NODES:
        until_s = 30 if node == never else REFUSED_UNTIL_S[node]
        refuse(story, node, 100, 1000 * until_s)
        if node != never:
            serve(story, node, until_s + 0.4)
    return story


def test_a_cluster_that_starts_is_one_note(tmp_path: Path) -> None:
    (incident,) = down(starting(), tmp_path).values()
    assert (incident.cause, incident.severity) == ("broker_started", Severity.NOTE)
    names = ", ".join(name_of(node) for node in NODES[:2])
    assert incident.headline.startswith(f"B{names[1:]} and {name_of(3)} came up from ")
    assert "141 attempts to connect were refused before, since " in incident.headline
    assert [round(seconds_of(time) or 0, 1) for time in (incident.begin_ns, incident.end_ns)] == [0.1, 11.4]


def test_a_broker_that_stays_away_when_its_cluster_starts_is_critical(tmp_path: Path) -> None:
    found = down(starting(never=2), tmp_path)
    assert found.keys() == {"broker_started", "broker_down"}
    assert found["broker_down"].severity is Severity.CRITICAL
    assert found["broker_down"].subject.name == name_of(2)
    assert "until the end of the capture" in found["broker_down"].headline


@pytest.mark.parametrize(("first_after_s", "when"), [(0.4, "at"), (9, "by")])
def test_a_broker_that_comes_up_in_a_cluster_that_serves_is_a_warning(
    first_after_s: float, when: str, tmp_path: Path
) -> None:
    """It is known when it came up if clients try often: here one comes long after the last attempt, too."""
    story, _ = cluster(lambda node, _: 3)
    story.lines = [line for line in story.lines if line.server[0] != "10.0.0.2"]
    refuse(story, 2, 100, 8_000)
    serve(story, 2, 8 + first_after_s)
    (incident,) = down(story, tmp_path).values()
    assert (incident.cause, incident.severity) == ("broker_started", Severity.WARNING)
    assert f"came up {when} " in incident.headline
    assert "48 attempts to connect were refused before" in incident.headline


def test_a_broker_that_served_clients_before_is_not_started(tmp_path: Path) -> None:
    """One client went away in good order, and others find nobody there later."""
    story, lines = cluster(lambda node, at_ms: None if node == 2 and at_ms > 2_000 else 3)
    for number, client in enumerate(PRODUCERS):
        lines[client, 2].close(2_500 + 1_000 * number)
    refuse(story, 2, 12_000, 18_000)
    serve(story, 2, 18.4)
    (incident,) = down(story, tmp_path).values()
    assert (incident.cause, incident.severity) == ("broker_down", Severity.CRITICAL)
