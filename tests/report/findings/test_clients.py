"""Findings about clients: connections, metadata, fetches, batches, versions, acks."""

from typing import Any

import pytest

from kdissect.report.model.findings import Severity
from kdissect.report.wording import client_id_text, client_text
from tests.helpers.finding_cases import (
    FindingCase,
    check_case,
    check_recorded_case,
)
from tests.helpers.paper_capture import MS, US, T
from tests.helpers.report_rows import (
    FETCH,
    METADATA,
    PRODUCE,
    SECOND,
    connection,
    exchange_of,
    many,
    produced,
    report,
)


def refused_syns(count: int, **more: Any) -> list[dict[str, Any]]:
    silent = {
        "bytes_to_server": 0,
        "bytes_to_client": 0,
        "protocol": "unknown",
        "server_rtt_ns": None,
        "closed": "rst",
    }
    return [connection(10 + at, **(silent | more)) for at in range(count)]


def written(batches: int, records: int, size: int, codec: str, **sampled: int) -> tuple[Any, ...]:
    row = {"records": records, "batches": 1, "record_bytes": size, "codec": codec, **sampled}
    return many(batches, PRODUCE, 5), produced(0, batches, **row)


CASES: dict[str, FindingCase] = {
    "refused_connections": FindingCase(
        fires=([], [], refused_syns(3)),
        quiet=([], [], refused_syns(3, server_rtt_ns=US)),
        incident="broker-restart.pcapng",
    ),
    "metadata_storm": FindingCase(
        fires=(many(60, METADATA, 100),),
        quiet=(many(60, METADATA, 1000),),
        incident="habits.pcapng",
    ),
    "connection_churn": FindingCase(
        fires=(
            [],
            [],
            [
                connection(at, client_host="10.1.0.9", client_id="new", first_time_ns=T + at)
                for at in range(40)
            ],
        ),
        quiet=(
            [],
            [],
            [
                connection(at, client_host="10.1.0.9", client_id="new", first_time_ns=T + at * SECOND)
                for at in range(40)
            ],
        ),
        incident="habits.pcapng",
    ),
    "empty_fetch_loop": FindingCase(
        fires=(many(200, FETCH, 5, MS, idle_wait=True), produced(1, 200)),
        quiet=(many(200, FETCH, 500, 500 * MS, idle_wait=True), produced(1, 200)),
        incident="habits.pcapng",
    ),
    "kafka_4_refuses": FindingCase(
        fires=(many(1, (8, "OffsetCommit", 1), 1),),
        quiet=(many(1, (8, "OffsetCommit", 2), 1),),
        incident="old-broker.pcap",
    ),
    "old_message_format": FindingCase(
        fires=(many(1, (0, "Produce", 2), 1),),
        quiet=(many(1, (2, "ListOffsets", 0), 1),),
        incident="old-broker.pcap",
    ),
    "acks_none": FindingCase(
        fires=(many(1, PRODUCE, 1, None, acks=0, status="no_response_expected"),),
        quiet=(many(1, PRODUCE, 1, acks=-1),),
        incident="steady.pcapng",
        healthy="transactions.pcapng",
    ),
    "acks_leader": FindingCase(
        fires=(many(1, PRODUCE, 1, acks=1),),
        quiet=(many(1, PRODUCE, 1, acks=-1),),
        incident="steady.pcapng",
        healthy="transactions.pcapng",
    ),
    "tiny_batches": FindingCase(
        fires=written(600, 1, 90, "none"),
        quiet=written(600, 40, 4000, "none"),
        incident="broker-restart.pcapng",
    ),
    "not_compressed": FindingCase(
        fires=written(600, 40, 4000, "none", sampled_bytes=4000, sampled_lz4_bytes=2000),
        quiet=written(600, 40, 4000, "lz4"),
        incident="refusals.pcapng",
    ),
}


@pytest.mark.parametrize(("took_ns", "severity"), [(MS, Severity.NOTE), (None, Severity.WARNING)])
def test_old_versions_that_a_broker_answers_are_a_note(took_ns, severity) -> None:
    status = {} if took_ns else {"status": "unanswered"}
    found = report(many(3, (8, "OffsetCommit", 1), 1, took_ns, **status)).findings
    assert {one.name: one.severity for one in found}["kafka_4_refuses"] is severity


@pytest.mark.parametrize("name", CASES)
def test_a_rule_fires_and_is_quiet(name: str) -> None:
    check_case(name, CASES[name])


@pytest.mark.parametrize("name", CASES)
def test_a_finding_has_a_recorded_incident_and_a_quiet_capture(name: str) -> None:
    check_recorded_case(name, CASES[name])


def test_records_that_do_not_shrink_are_no_finding():
    for made, expected in ((300, ["not_compressed"]), (990, [])):
        fires = written(600, 40, 4000, "none", sampled_bytes=1000, sampled_lz4_bytes=made)
        assert [one.name for one in report(*fires).findings] == expected


def test_a_refusal_that_lasts_to_the_end_says_so():
    (finding,) = report([], [], refused_syns(3)).findings
    assert "not open again in the capture" in finding.evidence[0].detail
    for protocol in ("kafka", "tls"):
        back = [*refused_syns(3), connection(1, first_time_ns=T + 90 * SECOND, protocol=protocol)]
        (finding,) = (one for one in report([], [], back).findings if one.name == "refused_connections")
        assert "not open again" not in finding.evidence[0].detail


def test_a_loop_of_empty_fetches_counts_over_all_connections_of_a_client():
    """2,550 of them on two connections, 15 a second on each: below a threshold for each connection."""
    loop = [exchange_of(1 + at % 2, at // 2, FETCH, 33 * at, MS, client_id="app") for at in range(600)]
    (found,) = (
        finding
        for finding in report(
            loop, produced(1, 1), [connection(number, client_host="10.1.0.1") for number in (1, 2)]
        ).findings
        if finding.name == "empty_fetch_loop"
    )
    assert [row.detail.split(",")[0] for row in found.evidence] == [
        "30 empty fetches a second on 2 connections"
    ]


def test_clients_that_share_a_name_open_connections_together():
    """20 connections without a client id, and 20 whose id is what stands for none."""
    opened = [
        connection(
            at,
            client_host="10.1.0.9",
            client_id=None if at % 2 else client_id_text(None),
            first_time_ns=T + at,
        )
        for at in range(40)
    ]
    few = [
        connection(40 + at, client_host="10.1.0.8", client_id="few", first_time_ns=T + at) for at in range(29)
    ]
    (churn,) = (one for one in report([], [], [*opened, *few]).findings if one.name == "connection_churn")
    assert [(row.subject, row.count) for row in churn.evidence] == [(client_text(None, "10.1.0.9"), 40)]
