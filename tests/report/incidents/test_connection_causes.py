"""Causes of single connections and addresses: what their incidents say, and how sure they are."""

from collections.abc import Callable

import pytest

from kdissect.report.incidents.cause import Case, Diagnosis, SignalIndex
from kdissect.report.incidents.connection_causes import (
    connections_reset,
    tls_failure,
    wrong_advertised_listener,
)
from kdissect.report.incidents.join import find_incidents
from kdissect.report.model.incidents import Signal, SubjectKind
from kdissect.report.signals.make_signal import make_signal

SECOND, BROKER = 10**9, "broker 1 (10.1.0.1:9092)"


def diagnosed(
    judge: Callable[[Case], Diagnosis | None], kind: str, sentence: str, **measures: int
) -> Diagnosis:
    span = (10 * SECOND, 20 * SECOND)
    anchor = make_signal(kind, (SubjectKind.SERVER, BROKER), span, sentence, measures=measures)
    found = judge(Case(anchor, SignalIndex((anchor,)), (0, 30 * SECOND)))
    assert found is not None
    assert (found.begin_ns, found.end_ns, found.core) == (*span, (anchor,))
    return found


def test_resets_at_one_age_are_surer_than_others() -> None:
    aged = diagnosed(connections_reset, "connections_reset", "connections end", one_age=1)
    others = diagnosed(connections_reset, "connections_reset", "connections end", one_age=0)
    assert aged.confidence > others.confidence
    assert "all of them reach about the same age" in aged.speaks_for
    assert aged.headline == "Connections end"


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("advertised_refused", "nobody connected to that address in the whole capture"),
        ("advertised_untried", "they reach others"),
    ],
)
def test_an_advertised_address_says_what_speaks_for_it(kind: str, reason: str) -> None:
    found = diagnosed(wrong_advertised_listener, kind, f"{BROKER} advertises kafka-1:9092")
    assert reason in found.speaks_for
    assert found.headline.startswith("Broker 1 ")


def test_the_name_of_a_client_keeps_its_first_letter() -> None:
    found = diagnosed(tls_failure, "tls_refused", "orders-app at 10.1.0.9 is turned away")
    assert found.headline.startswith("orders-app ")


def test_connections_that_a_server_closes_at_once_are_not_left_waiting() -> None:
    """The capture lacks the ends of two of many connections that a limit closed."""
    server = "broker 1 (10.0.0.1:9092)"
    waiting = make_signal(
        "connections_unserved", (SubjectKind.SERVER, server), (10 * SECOND, None), "…",
        measures={"connections": 3, "going_on": 5, "longest_ns": 9 * SECOND},
    )  # fmt: skip
    closed = make_signal(
        "closed_at_once", (SubjectKind.HOST, "10.1.0.9"), (9 * SECOND, None), "…",
        measures={"connections": 40, "servers": 1, "serving": 1}, servers=[server], requests=40,
    )  # fmt: skip

    def causes(*signals: Signal) -> list[str]:
        return [one.cause for one in find_incidents(signals, (0, 30 * SECOND), 100)[0]]

    assert causes(waiting) == ["connections_full"]
    assert causes(waiting, closed) == ["connection_limit"]
