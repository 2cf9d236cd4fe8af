"""The rows of the table that name causes of the network: their signals exist, and what they say is whole."""

import pytest

from kdissect.report.incidents.cause import Cause, Layer
from kdissect.report.incidents.causes import CAUSES
from kdissect.report.incidents.network_causes import NETWORK_CAUSES
from kdissect.report.signals.network_signals import PATH_KINDS
from kdissect.report.signals.sources import KINDS
from kdissect.report.signals.transport_signals import TRANSPORT_KINDS
from tests.helpers import recorded


@pytest.mark.parametrize("cause", NETWORK_CAUSES, ids=lambda cause: cause.name)
def test_anchors_and_links_are_kinds_of_signals(cause: Cause) -> None:
    assert set(cause.anchors) <= KINDS.keys()
    assert {kind for link in cause.links for kind in link.kinds} <= KINDS.keys()
    assert cause.means.endswith(".")
    assert cause.needs
    assert cause.next


def test_every_signal_of_the_network_is_the_anchor_of_one_cause() -> None:
    anchors = [anchor for cause in NETWORK_CAUSES for anchor in cause.anchors]
    assert sorted(anchors) == sorted(kind.name for kind in (*PATH_KINDS, *TRANSPORT_KINDS))


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
    assert found.isdisjoint(cause.name for cause in NETWORK_CAUSES)
