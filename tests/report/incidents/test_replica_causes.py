"""Leaders and their followers: who fetches no more, and who does not know that it leads no more."""

import pytest

from kdissect.report.incidents.join import find_incidents
from kdissect.report.model.incidents import Incident, SubjectKind
from kdissect.report.signals.make_signal import make_signal
from tests.helpers.told_cluster import name_of

SECOND = 1_000_000_000


def moved_away(*others: tuple[str, int], requests: int = 3) -> list[Incident]:
    """Return the incidents if partitions moved away from a broker at which requests wait."""
    server = (SubjectKind.SERVER, name_of(2))
    moved = make_signal(
        "leaders_moved", server, (20 * SECOND, 21 * SECOND), "…",
        measures={"partitions": 4, "leaders": 2}, topics=["orders"],
    )  # fmt: skip
    waiting = make_signal(
        "requests_open", server, (12 * SECOND, None), "…",
        measures={"requests": requests, "connections": requests}, clients=["writer at 10.1.0.8"],
        requests=requests,
    )  # fmt: skip
    measures = {"things": 4, "clients": 2, "replicas": 0, "partitions": 4}
    more = (make_signal(kind, server, (at_s * SECOND, None), "…", measures=measures) for kind, at_s in others)
    return list(find_incidents((moved, waiting, *more), (0, 40 * SECOND), 100)[0])


def test_a_broker_that_does_not_know_that_its_partitions_moved_away() -> None:
    (incident,) = moved_away()
    assert incident.cause == "broker_fenced"
    assert "3 requests to it wait; " in incident.headline
    assert "1 request to it waits; " in moved_away(requests=1)[0].headline


def test_a_broker_that_says_that_it_leads_no_more_knows_it() -> None:
    assert "broker_fenced" not in [one.cause for one in moved_away(("leadership_left", 20))]


@pytest.mark.parametrize(
    ("leader", "found"), [(3, ["follower_behind"]), (2, ["requests_unanswered", "follower_behind"])]
)
def test_requests_that_wait_at_the_leader_of_a_silent_follower(leader: int, found: list[str]) -> None:
    """A write with acks=all waits for its follower; requests at another broker wait for something else."""
    silent = make_signal(
        "follower_silent", (SubjectKind.SERVER, name_of(1)), (10 * SECOND, None), "…",
        measures={"silent_ns": 9 * SECOND}, servers=[name_of(3)],
    )  # fmt: skip
    waiting = make_signal(
        "requests_open", (SubjectKind.SERVER, name_of(leader)), (14 * SECOND, None), "…",
        measures={"requests": 2, "connections": 1}, clients=["writer at 10.1.0.1"], requests=2,
        wait_ns=10 * SECOND,
    )  # fmt: skip
    incidents, _ = find_incidents([silent, waiting], (0, 20 * SECOND), 1000)
    assert [one.cause for one in incidents] == found


@pytest.mark.parametrize(("absent", "beginning"), [(3, "Broker 3"), (1, "Broker 1")])
def test_a_leader_that_is_out_of_sync_leads_no_more(absent: int, beginning: str) -> None:
    """Metadata that says so of a leader tells that others lead by now; of its follower, that it is behind."""
    silent = make_signal(
        "follower_silent", (SubjectKind.SERVER, name_of(1)), (10 * SECOND, None), "…",
        measures={"silent_ns": 9 * SECOND}, servers=[name_of(3)],
    )  # fmt: skip
    behind = make_signal(
        "replicas_out_of_sync", (SubjectKind.SERVER, name_of(absent)), (13 * SECOND, None),
        "it is out of sync", measures={"partitions": 6}, topics=["orders"],
    )  # fmt: skip
    ((incident,), _) = find_incidents([silent, behind], (0, 20 * SECOND), 1000)
    assert incident.cause == "follower_behind"
    assert incident.headline.startswith(beginning)
    assert ("fell out of the cluster" in incident.headline) == (absent == 3)
