"""Brokers that die in one moment are one incident, and those that die one after the other are not."""

import pytest

from kdissect.report.incidents.join import find_incidents
from kdissect.report.model.incidents import Incident, Signal, SubjectKind
from kdissect.report.signals.make_signal import make_signal
from tests.helpers.told_cluster import name_of

SECOND = 10**9


def killed(
    node: int, at_s: float, back_s: float | None = None, *, attempts: int = 5, name: str = ""
) -> list[Signal]:
    """Return the signals of a broker that dies with requests under way, and is back or not."""
    at, subject = round(at_s * SECOND), (SubjectKind.SERVER, name or name_of(node))
    back = None if back_s is None else round(back_s * SECOND)
    clients = [f"writer-{number} at 10.1.0.{number}" for number in range(4)]
    ended = {"connections": 4, "by_server": 4, "complete": 4, "cut": 3, "again_ns": back or 0}
    refused = {
        "attempts": attempts,
        "last_ns": at + 9 * SECOND,
        "elsewhere": 0,
        "talked_ns": at,
        "closed_ns": 0,
    }
    signals = [make_signal("connections_ended", subject, (at, at), "…", measures=ended, clients=clients)]
    if attempts:
        span = at + SECOND // 10, back
        signals.append(
            make_signal(
                "attempts_refused", subject, span, "…", measures=refused, clients=clients, requests=attempts
            )
        )
    return signals


def found(*signals: list[Signal]) -> list[Incident]:
    """Return the incidents of brokers."""
    rows = sorted((one for own in signals for one in own), key=lambda one: one.begin_ns)
    return list(find_incidents(rows, (0, 100 * SECOND), 1000)[0])


def test_brokers_that_die_in_one_moment_are_one_incident() -> None:
    (incident,) = found(killed(1, 20), killed(2, 20.3))
    assert (incident.cause, incident.begin_ns, incident.end_ns) == ("broker_killed", 20 * SECOND, None)
    assert incident.headline.lower().startswith(f"{name_of(1)} and {name_of(2)} died together at")
    assert "8 connections ended with 6 requests under way" in incident.headline
    assert incident.headline.endswith("10 attempts to connect refused until the end of the capture")
    assert incident.subject.name == "the cluster"


def test_brokers_at_one_address_may_stand_behind_a_load_balancer() -> None:
    (apart,) = found(killed(1, 20), killed(2, 20.3))
    names = [f"broker {node} (10.0.0.9:1909{node})" for node in (1, 2)]
    (behind,) = found(killed(1, 20, name=names[0]), killed(2, 20.3, name=names[1]))
    assert not [one for one in apart.speaks_against if "load balancer" in one]
    assert behind.speaks_against[0].startswith("all are at one address, 10.0.0.9: a load balancer, ")


def test_a_broker_that_nobody_asks_again_died_with_the_others() -> None:
    (incident,) = found(killed(3, 20), killed(1, 20.1, attempts=0), killed(2, 20.2))
    assert f"{name_of(1)} and {name_of(2)} died together" in incident.headline
    assert "12 connections ended with 9 requests" in incident.headline


def test_brokers_that_are_all_back() -> None:
    (incident,) = found(killed(1, 20, 50), killed(2, 20.3, 55))
    assert incident.end_ns == 55 * SECOND
    assert ", and all were back after 35.0s: 8 connections" in incident.headline
    assert "until the end" not in incident.headline


@pytest.mark.parametrize("second_s", [22, 30])
def test_a_broker_that_dies_later_is_an_incident_of_its_own(second_s: float) -> None:
    names = [one.subject.name for one in found(killed(1, 20), killed(2, second_s))]
    assert sorted(names) == [name_of(1), name_of(2)]


def test_a_broker_that_dies_alone() -> None:
    (incident,) = found(killed(1, 20))
    assert incident.headline.lower().startswith(f"{name_of(1)} died at")
