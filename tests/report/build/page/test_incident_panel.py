"""Incidents of the page: lanes by subject, with times of the page."""

from tests.helpers import recorded


def test_every_signal_of_an_incident_lies_on_a_lane_of_its_subject():
    summary, data = recorded.analyzed("pause.pcapng")[0], recorded.data("pause.pcapng")
    shown, incident = data["incidents"][0], summary.incidents[0]
    assert shown["title"] == incident.headline
    assert sum(len(lane["bars"]) for lane in shown["lanes"]) == len(incident.signals)
    assert shown["lanes"][0]["subject"] == incident.subject.name
    for lane in shown["lanes"]:
        for bar in lane["bars"]:
            assert bar["from"] <= bar["to"]


def test_a_healthy_capture_has_none():
    assert recorded.data("tls.pcapng")["incidents"] == []
