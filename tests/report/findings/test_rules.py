"""The table of rules: every rule has its case, and findings in recorded captures agree with their logs."""

from typing import Any

import pytest

from kdissect.report.findings.rules import RULES
from kdissect.report.model.findings import Severity
from kdissect.text import format_duration
from tests.helpers.finding_cases import findings_of, manifest_entry
from tests.helpers.paper_capture import MS
from tests.helpers.report_rows import SECOND
from tests.report.findings import (
    test_capture,
    test_clients,
    test_groups,
    test_network,
    test_responses,
    test_security,
)

CASES = {
    name: case
    for module in (test_capture, test_clients, test_groups, test_network, test_responses, test_security)
    for name, case in module.CASES.items()
}


def test_every_rule_has_a_name_of_its_own_and_a_case() -> None:
    names = [rule.name for rule in RULES]
    assert len(names) == len(set(names))
    assert set(names) == CASES.keys()


GRAVE: dict[str, set[str]] = {
    "steady.pcapng": set(),
    "transactions.pcapng": set(),
    "tls.pcapng": set(),
    "rebalances.pcapng": set(),
    "old-broker.pcap": set(),
    "sasl.pcapng": {"authentication_failed", "unanswered_cut"},
    "neglect.pcapng": {"records_too_large", "transactions_open"},
    "habits.pcapng": {"producer_fenced", "metadata_storm", "connection_churn", "empty_fetch_loop"},
    "limping.pcapng": {"slow_broker"},
    "pause.pcapng": {"unanswered_timeout"},
    "refusals.pcapng": {
        "tls_failed",
        "corrupt_records",
        "sequence_gap",
        "retriable_errors_lasted",
        "not_authorized",
        "throttled",
    },
    "expired.pcapng": {"member_expired", "commit_failed", "behind_long_poll"},
    "rough-link.pcapng": set(),
    "starved.pcapng": {"capture_loss"},
    "clock-step.pcapng": {"clock_steps"},
}
"""By capture: all that is found in it beside notes.

In the others so much happens that no list of theirs would be a promise.
"""


@pytest.mark.parametrize("name", GRAVE)
def test_recorded_captures(name):
    found = findings_of(name)
    assert {key for key, one in found.items() if one.severity is not Severity.NOTE} == GRAVE[name]


@pytest.mark.parametrize("capture", sorted({case.incident for case in CASES.values()}))
def test_evidence_of_incidents_says_when_and_where(capture):
    for name, finding in findings_of(capture).items():
        for row in finding.evidence:
            assert row.count > 0, name
            assert row.first_time_ns is not None, name
            assert row.first_time_ns <= row.last_time_ns
            assert row.place is not None or name in ("tiny_batches", "not_compressed"), name
            if row.place is not None:
                assert row.place.request_packet or row.place.response_packet or row.place.connection, name


def by_subject(capture: str, finding: str) -> dict[str, Any]:
    """The rows of evidence by the client id (or address) that they begin with."""
    return {row.subject.split(" ")[0]: row for row in findings_of(capture)[finding].evidence}


def test_refusals_are_those_that_the_broker_logged():
    entry = manifest_entry("refusals.pcapng")
    logged = {(row["api_name"], row["error_name"]): row["responses"] for row in entry["expected"]["errors"]}
    clients = {row["client_id"]: row for row in entry["clients"]}
    flipped = by_subject("refusals.pcapng", "corrupt_records")["flipped"]
    assert flipped.count == logged["Produce", "CORRUPT_MESSAGE"]
    assert flipped.count == entry["noticed"]["requests in which the middlebox flipped a bit"]
    skipping = by_subject("refusals.pcapng", "sequence_gap")["skipping"]
    assert skipping.count == logged["Produce", "OUT_OF_ORDER_SEQUENCE_NUMBER"]
    refused = by_subject("refusals.pcapng", "not_authorized")
    assert refused["intruder"].count == logged["Produce", "TOPIC_AUTHORIZATION_FAILED"]
    assert refused["stranger"].count == logged["JoinGroup", "GROUP_AUTHORIZATION_FAILED"]
    throttled = by_subject("refusals.pcapng", "throttled")
    assert throttled.keys() == {name for name, row in clients.items() if row["throttle_ms"]}
    assert format_duration(clients["greedy"]["throttle_ms"] * MS) + " in all" in throttled["greedy"].detail
    misspelt = by_subject("refusals.pcapng", "retriable_errors_lasted")["misspelt"]
    assert misspelt.last_time_ns - misspelt.first_time_ns > 5 * SECOND
    assert "ledgre" in misspelt.subject
    (alerts,) = (r for r in findings_of("refusals.pcapng")["tls_failed"].evidence if "unknown_ca" in r.detail)
    assert alerts.count == entry["noticed"]["TLS handshakes that failed in the broker's log"]


def test_what_is_neglected_is_told_with_names_and_numbers():
    found = findings_of("neglect.pcapng")
    (lag,) = found["lag_growing"].evidence
    assert lag.subject == "slow-reader at 127.0.0.1: clicks"
    assert lag.count > 500
    (large,) = found["records_too_large"].evidence
    assert (large.subject, large.count) == ("big-writer at 127.0.0.1: notes-0", 6)  # it sends six records
    (transaction,) = found["transactions_open"].evidence
    assert transaction.subject == "forgetful"
    assert transaction.detail == (
        "forgetful at 127.0.0.1 sent the last request of the transaction 15.0s before the capture ended, and "
        "did not end it"
    )
