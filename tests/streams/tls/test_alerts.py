"""Alerts have the names of their registry."""

import pytest
from scapy.layers.tls.record import _tls_alert_description

from kdissect.streams.tls.alerts import ALERTS, HARMLESS, alert_name


@pytest.mark.parametrize("number", sorted(ALERTS.keys() & _tls_alert_description.keys()))
def test_alerts_are_named_as_scapy_names_them(number: int) -> None:
    same = {"no_certificate_RESERVED": "no_certificate", "export_restriction_RESERVED": "export_restriction"}
    theirs = _tls_alert_description[number].removesuffix("_RESERVED")
    assert alert_name(number) == same.get(theirs, theirs)


def test_an_alert_without_a_name_shows_its_number() -> None:
    assert alert_name(200) == "alert_200"


def test_harmless_alerts_are_those_that_end_or_decline() -> None:
    assert {alert_name(number) for number in HARMLESS} == {
        "close_notify",
        "user_canceled",
        "no_renegotiation",
    }
