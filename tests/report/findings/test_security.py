"""Failed logins, failed TLS handshakes, refused access, and credentials that anyone can read."""

import pytest

from tests.helpers.finding_cases import FindingCase, check_case, check_recorded_case
from tests.helpers.report_rows import (
    SASL,
    connection,
    failing,
    report,
)

CASES: dict[str, FindingCase] = {
    "authentication_failed": FindingCase(
        fires=(failing(1, SASL, 58, [0]),),
        quiet=(failing(1, SASL, 0, [0]),),
        incident="sasl.pcapng",
    ),
    "tls_failed": FindingCase(
        fires=(
            [],
            [],
            [
                connection(
                    1, protocol="tls", tls_outcome="failed", tls_alert="unknown_ca", tls_alert_by="client"
                )
            ],
        ),
        quiet=(
            [],
            [],
            [
                connection(
                    1,
                    protocol="tls",
                    tls_outcome="completed",
                    tls_alert="internal_error",
                    tls_alert_by="server",
                )
            ],
        ),
        incident="refusals.pcapng",
    ),
    "credentials_readable": FindingCase(
        fires=([], [], [connection(1, sasl_mechanism="PLAIN")]),
        quiet=(
            [],
            [],
            [
                connection(1, sasl_mechanism="PLAIN", tls_version="TLS 1.3"),
                connection(2, sasl_mechanism="SCRAM-SHA-256"),
            ],
        ),
        incident="sasl.pcapng",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_rule_fires_and_is_quiet(name: str) -> None:
    check_case(name, CASES[name])


@pytest.mark.parametrize("name", CASES)
def test_a_finding_has_a_recorded_incident_and_a_quiet_capture(name: str) -> None:
    check_recorded_case(name, CASES[name])


def test_a_raw_token_that_was_answered_by_closing_is_a_failed_login():
    refused = connection(1, sasl_mechanism="PLAIN", sasl_outcome="failed")
    (finding,) = [one for one in report([], [], [refused]).findings if one.name == "authentication_failed"]
    assert [(row.subject, row.detail, row.count) for row in finding.evidence] == [
        ("client-1 at 10.1.0.1", "the server closed the connection after the PLAIN token", 1)
    ]


def test_a_hello_that_was_never_answered_is_a_failed_handshake_only_if_the_capture_is_whole():
    asked = {"protocol": "tls", "tls_outcome": "unanswered"}
    for more, expected in (({}, 1), ({"lost_bytes": 9}, 0), ({"closed": "open"}, 0)):
        found = report([], [], [connection(1, **asked, **more)]).findings
        assert sum(one.name == "tls_failed" for one in found) == expected
