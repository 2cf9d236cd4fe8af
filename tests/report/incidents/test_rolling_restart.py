"""Brokers that are stopped in turn are one incident, and those that are gone together are not."""

import pytest

from kdissect.report.incidents.join import find_incidents
from kdissect.report.model.incidents import Signal, SubjectKind
from kdissect.report.signals.make_signal import make_signal
from tests.helpers.told_cluster import name_of

SECOND = 10**9


def stopped(node: int, at_s: float, back_s: float | None) -> list[Signal]:
    """Return the signals of a broker that hands over, ends its connections, and is back or not."""
    at, name = round(at_s * SECOND), name_of(node)
    measures = {"connections": 4, "by_server": 4, "complete": 4, "cut": 0}
    measures["again_ns"] = 0 if back_s is None else round(back_s * SECOND)
    clients = [f"writer-{number} at 10.1.0.{number}" for number in range(4)]
    left = {"things": 2, "clients": 3, "replicas": 0, "partitions": 2}
    subject = SubjectKind.SERVER, name
    return [
        make_signal("leadership_left", subject, (at, at + 1), "…", measures=left, clients=clients),
        make_signal(
            "connections_ended", subject, (at + SECOND, at + SECOND), "…", measures=measures, clients=clients
        ),
    ]  # fmt: skip


def meaning(*signals: list[Signal]) -> str:
    """Return what the only incident means."""
    (incident,), _ = find_incidents([one for own in signals for one in own], (0, 200 * SECOND), 1000)
    return incident.means


def found(*signals: list[Signal]) -> list[tuple[str, int, str]]:
    """Return cause, begin in seconds and headline of the incidents of brokers."""
    rows = sorted((one for own in signals for one in own), key=lambda one: one.begin_ns)
    incidents, _ = find_incidents(rows, (0, 200 * SECOND), 1000)
    return [(one.cause, one.begin_ns // SECOND, one.headline) for one in incidents]


def refused(node: int, begin_s: int, last_s: int) -> Signal:
    """Return the signal of attempts to connect that are refused, and after which nobody connects."""
    measures = {"attempts": 9, "last_ns": last_s * SECOND, "talked_ns": begin_s * SECOND}
    measures |= {"closed_ns": 0, "elsewhere": 0, "beside": 0}
    subject = SubjectKind.SERVER, name_of(node)
    return make_signal(
        "attempts_refused", subject, (begin_s * SECOND, None), "…", measures=measures, requests=9
    )


@pytest.mark.parametrize(
    ("attempts", "state"),
    [
        ([], "nobody had connected to {} again"),
        ([refused(2, 77, 120)], "nobody had connected to {} again"),
        ([refused(2, 77, 195)], "{} was not back"),
    ],
)
def test_brokers_that_are_stopped_in_turn_are_one_incident(attempts: list[Signal], state: str) -> None:
    """The last one may be back without a client, unless attempts are refused until the end."""
    last = [*stopped(2, 75, None), *attempts]
    ((cause, begin_s, headline),) = found(stopped(3, 20, 40), stopped(1, 45, 70), last)
    assert (cause, begin_s) == ("broker_stopped", 20)
    names = f"{name_of(3)}, {name_of(1)}, {name_of(2)}"
    assert headline.lower().startswith(f"{names} were stopped one after the other from")
    assert "those that are back for up to 25.0s: 12 connections ended" in headline
    assert headline.endswith(f"; {state.format(name_of(2))} when the capture ended")


def test_brokers_that_are_all_back_again() -> None:
    ((_, _, headline),) = found(stopped(3, 20, 40), stopped(1, 45, 70))
    assert "each for up to 25.0s: 8 connections ended" in headline
    assert "not back" not in headline


@pytest.mark.parametrize("second", [stopped(1, 30, 60), stopped(1, 190, 195)])
def test_brokers_that_are_gone_together_or_at_other_times_are_several(second: list[Signal]) -> None:
    """The second is stopped before the first is back, or much later."""
    assert [cause for cause, _, _ in found(stopped(3, 20, 40), second)] == ["broker_stopped"] * 2


def test_a_broker_that_is_stopped_alone() -> None:
    ((_, _, headline),) = found(stopped(3, 20, 40))
    assert headline.lower().startswith(f"{name_of(3)} was stopped at")


def test_the_meaning_tells_one_restart_from_a_rolling_one() -> None:
    alone, in_turn = meaning(stopped(3, 20, 40)), meaning(stopped(3, 20, 40), stopped(1, 45, 70))
    assert alone == "The broker was shut down in good order: somebody or something stopped or restarted it."
    assert in_turn.endswith("each when the one before was back: a rolling restart.")
