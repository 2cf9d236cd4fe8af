"""The rows of the table that name causes of the network: their signals exist, and what they say is whole."""

from dataclasses import replace

import pytest

from kdissect.protocol.error_codes import ErrorCode
from kdissect.report.incidents.cause import Case, Cause, Layer, SignalIndex
from kdissect.report.incidents.causes import CAUSES
from kdissect.report.incidents.connection_causes import CONNECTION_CAUSES
from kdissect.report.incidents.join import find_incidents
from kdissect.report.incidents.network_causes import NETWORK_CAUSES, path_dead, path_slow
from kdissect.report.model.incidents import Signal, SubjectKind
from kdissect.report.signals.address_signals import ADDRESS_KINDS
from kdissect.report.signals.make_signal import make_signal
from kdissect.report.signals.network_signals import PATH_KINDS
from kdissect.report.signals.sources import KINDS
from kdissect.report.signals.tls_signals import TLS_KINDS
from kdissect.report.signals.transport_signals import TRANSPORT_KINDS
from kdissect.report.signals.unserved_signals import UNSERVED_KINDS
from tests.helpers import recorded


@pytest.mark.parametrize("cause", [*NETWORK_CAUSES, *CONNECTION_CAUSES], ids=lambda cause: cause.name)
def test_anchors_and_links_are_kinds_of_signals(cause: Cause) -> None:
    assert set(cause.anchors) <= KINDS.keys()
    assert {kind for link in cause.links for kind in link.kinds} <= KINDS.keys()
    assert cause.means.endswith(".")
    assert cause.needs
    assert cause.next


def test_every_signal_of_the_network_is_the_anchor_of_one_cause() -> None:
    anchors = [anchor for cause in (*NETWORK_CAUSES, *CONNECTION_CAUSES) for anchor in cause.anchors]
    modules = (PATH_KINDS, TRANSPORT_KINDS, ADDRESS_KINDS, TLS_KINDS, UNSERVED_KINDS)
    kinds = {kind.name for module in modules for kind in module}
    kinds |= {"address_shared", "connections_reset", "records_damaged"}
    assert sorted(anchors) == sorted(kinds)


def test_a_bad_path_comes_before_what_it_does_to_servers() -> None:
    layers = {cause.name: cause.layer for cause in CAUSES}
    assert layers["path_dead"] == layers["path_slow"] == Layer.NETWORK
    assert layers["path_dead"] < layers["broker_frozen"]


def test_a_rough_link_is_named_from_its_first_loss_on() -> None:
    (incident,) = recorded.analyzed("rough-link.pcapng")[0].incidents
    assert incident.cause == "path_lossy"
    assert "10.77.0.1" in incident.subject.name
    assert "10.77.0.2" in incident.subject.name


@pytest.mark.parametrize(
    "name", ["steady.pcapng", "habits.pcapng", "cluster-life.pcapng", "rebalances.pcapng"]
)
def test_captures_without_a_bad_path(name: str) -> None:
    found = {incident.cause for incident in recorded.analyzed(name)[0].incidents}
    assert found.isdisjoint(cause.name for cause in (*NETWORK_CAUSES, *CONNECTION_CAUSES))


SECOND, BROKER, CLIENT = 10**9, "broker 1 (10.1.0.1:9092)", "writer at 10.1.0.3"


def silence(kind: str, lasted_s: float, **more: int) -> Signal:
    measures = {"silent_ns": round(lasted_s * SECOND), "connections": 7} | more
    span = (10 * SECOND, round((10 + lasted_s) * SECOND))
    return make_signal(kind, (SubjectKind.HOST, BROKER), span, "…", measures=measures, servers=[BROKER])


@pytest.mark.parametrize(("repeats", "silent_s", "dead"), [(0, 7, False), (0, 1, True), (5, 7, True)])
def test_requests_that_arrive_at_a_silent_server_show_no_dead_path(
    repeats: int, silent_s: float, dead: bool
) -> None:
    """Nothing was sent again, so its kernel acknowledged the requests that it does not answer."""
    path, server = silence("path_silent", 7, repeats=repeats), silence("server_silent", silent_s)
    case = Case(path, SignalIndex((path, server)), (0, 30 * SECOND))
    assert (path_dead(case) is not None) == dead


def test_what_follows_from_a_dead_path() -> None:
    """A coordinator that cannot be found, and batches that arrive out of order when it is well again."""
    path = replace(silence("path_silent", 7, repeats=5), clients=(CLIENT,))
    measures = {"count": 3, "lasted_ns": 9 * SECOND, "code": int(ErrorCode.COORDINATOR_NOT_AVAILABLE)}
    later = [
        make_signal(kind, (SubjectKind.CLIENT, CLIENT), (12 * SECOND, None), "…", measures=measures,
                    servers=servers, groups=["readers"])
        for kind, servers in (("coordinator_missing", [BROKER]), ("sequence_gap", []))
    ]  # fmt: skip
    incidents, signals = find_incidents((path, *later), (0, 30 * SECOND), 100)
    assert [one.cause for one in incidents] == ["path_dead"]
    assert [one.incident for one in signals] == [0, 0, 0]


def test_responses_that_arrive_slowly_follow_from_a_lossy_path() -> None:
    measures = {"times": 40, "connections": 3, "longest_ns": SECOND}
    loss, slow = (
        make_signal(kind, (of, name), (10 * SECOND + late, None), "…", measures=measures, servers=[BROKER])
        for kind, of, name, late in (
            ("loss_rose", SubjectKind.HOST, BROKER, 0),
            ("slow_transfer", SubjectKind.CLIENT, "reader at 10.1.0.3", SECOND),
        )
    )
    incidents, signals = find_incidents((loss, slow), (0, 30 * SECOND), 100)
    assert [one.cause for one in incidents] == ["path_lossy"]
    assert [one.incident for one in signals] == [0, 0]


@pytest.mark.parametrize(
    ("throttled", "after_ms", "told"),
    [("writer", 24, False), ("writer", 90, True), ("other", 24, True)],
    ids=["throttled", "longer than delayed acknowledgments", "another client"],
)
def test_a_client_that_brokers_do_not_read_gets_late_acknowledgments(
    throttled: str, after_ms: int, told: bool
) -> None:
    measures = {"before_ns": 800_000, "after_ns": after_ms * 1_000_000, "pairs": 1, "connections": 1}
    path, span = (SubjectKind.PATH, "host 10.1.0.2 and broker 1"), (10 * SECOND, None)
    rose = make_signal("round_trip_rose", path, span, "…", measures=measures, clients=["writer"])
    quota = make_signal(
        "quota_applied", (SubjectKind.CLIENT, throttled), (9 * SECOND, None), "…", clients=[throttled]
    )
    case = Case(rose, SignalIndex((rose, quota)), (0, 30 * SECOND))
    assert (path_slow(case) is not None) == told
