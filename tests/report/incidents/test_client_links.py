"""Signals that causes of clients explain: kinds of signals that exist, and nothing of the capture itself."""

from kdissect.report.incidents.cause import Case, Layer, Relation, SignalIndex
from kdissect.report.incidents.causes import CAUSES
from kdissect.report.incidents.client_links import FOLLOWS_A_GROUP, LED_BY_CLIENTS, stated
from kdissect.report.model.incidents import SubjectKind
from kdissect.report.signals.make_signal import make_signal
from kdissect.report.signals.sources import KINDS


def test_all_kinds_that_are_linked_exist():
    linked = {kind for link in FOLLOWS_A_GROUP for kind in link.kinds}
    assert linked | set(LED_BY_CLIENTS) <= KINDS.keys()
    assert "capture_loss" not in linked


def test_a_stated_cause_has_the_sentence_and_the_time_of_its_signal():
    signal = make_signal("quota_applied", (SubjectKind.CLIENT, "a at b"), (5, None), "a at b waits")
    diagnosis = stated(0.9)(Case(signal, SignalIndex([signal]), (0, 10)))
    assert (diagnosis.headline, diagnosis.begin_ns, diagnosis.end_ns) == ("a at b waits", 5, None)
    assert diagnosis.core == (signal,)


def test_what_clients_do_behind_a_bad_path_is_a_consequence_of_it():
    network = [cause for cause in CAUSES if cause.layer is Layer.NETWORK]
    assert network
    for cause in network:
        of_clients = [link.kinds for link in cause.links if link.relation is Relation.CLIENT]
        assert any(set(LED_BY_CLIENTS) <= set(kinds) for kinds in of_clients), cause.name
