"""Requests without a response, errors that last, moved leaders and controllers, and throttling."""

import re

import pytest

from kdissect.protocol.error_codes import ErrorCode
from kdissect.report.model.findings import Severity
from kdissect.report.model.summary import CaptureFacts
from tests.helpers import recorded
from tests.helpers.finding_cases import FindingCase, check_case, check_recorded_case, findings_of
from tests.helpers.paper_capture import MS, T
from tests.helpers.report_rows import (
    ADD_PARTITIONS,
    FETCH,
    METADATA,
    PRODUCE,
    SECOND,
    VOTE,
    Row,
    connection,
    exchange_of,
    failing,
    many,
    produced,
    report,
    unanswered,
)

CASES: dict[str, FindingCase] = {
    "unanswered_timeout": FindingCase(
        fires=(unanswered(PRODUCE, 0),),
        quiet=(unanswered(PRODUCE, 59_000),),
        incident="pause.pcapng",
    ),
    "corrupt_records": FindingCase(
        fires=(many(1, PRODUCE, 1), produced(0, 1, error_code=2)),
        quiet=(many(1, PRODUCE, 1), produced(0, 1)),
        incident="refusals.pcapng",
    ),
    "sequence_gap": FindingCase(
        fires=(many(1, PRODUCE, 1), produced(0, 1, error_code=45)),
        quiet=(many(1, PRODUCE, 1), produced(0, 1, error_code=6)),
        incident="refusals.pcapng",
    ),
    "producer_fenced": FindingCase(
        fires=(failing(1, ADD_PARTITIONS, 90, [0]),),
        quiet=(failing(1, ADD_PARTITIONS, 51, [0]),),
        incident="habits.pcapng",
    ),
    "unanswered_cut": FindingCase(
        fires=(unanswered(PRODUCE, 59_000),),
        quiet=(unanswered(FETCH, 59_000),),
        incident="broker-restart.pcapng",
    ),
    "leader_moved": FindingCase(
        fires=(many(3, PRODUCE, 100), produced(0, 3, error_code=6)),
        quiet=(many(3, PRODUCE, 100), produced(0, 3)),
        incident="broker-restart.pcapng",
    ),
    "retriable_errors_lasted": FindingCase(
        fires=(many(8, PRODUCE, 1000), produced(0, 8, error_code=7)),
        quiet=(many(8, PRODUCE, 6000), produced(0, 8, error_code=7)),
        incident="refusals.pcapng",
    ),
    "not_authorized": FindingCase(
        fires=(failing(1, PRODUCE, 29, [0]),),
        quiet=(failing(1, PRODUCE, 58, [0]),),
        incident="refusals.pcapng",
    ),
    "records_too_large": FindingCase(
        fires=(many(1, PRODUCE, 1), produced(0, 1, error_code=10)),
        quiet=(many(1, PRODUCE, 1), produced(0, 1, error_code=6)),
        incident="neglect.pcapng",
    ),
    "setting_refused": FindingCase(
        fires=(many(1, PRODUCE, 1), produced(0, 1, error_code=17)),
        quiet=(many(1, PRODUCE, 1), produced(0, 1, error_code=6)),
        incident="cluster-life.pcapng",
    ),
    "controller_moved": FindingCase(
        fires=(many(1, VOTE, 1),),
        quiet=(many(1, METADATA, 1),),
        incident="cluster-life.pcapng",
    ),
    "throttled": FindingCase(
        fires=(many(2, PRODUCE, 10, throttle_ms=40),),
        quiet=(many(2, PRODUCE, 10),),
        incident="refusals.pcapng",
    ),
    "transactions_concurrent": FindingCase(
        fires=(failing(1, ADD_PARTITIONS, 51, [0]),),
        quiet=(failing(1, ADD_PARTITIONS, 90, [0]),),
        incident="transactions.pcapng",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_rule_fires_and_is_quiet(name: str) -> None:
    check_case(name, CASES[name])


@pytest.mark.parametrize("name", CASES)
def test_a_finding_has_a_recorded_incident_and_a_quiet_capture(name: str) -> None:
    check_recorded_case(name, CASES[name])


def test_an_election_of_controllers_is_told_in_words():
    (finding,) = [
        one for one in report(*CASES["controller_moved"].fires).findings if one.name == "controller_moved"
    ]
    (row,) = finding.evidence
    assert (row.subject, row.detail) == (
        "controllers",
        "1 node asked the others to elect a controller (Vote)",
    )


def test_evidence_leads_to_the_packets():
    (finding,) = [one for one in report(*CASES["leader_moved"].fires).findings if one.name == "leader_moved"]
    (row,) = finding.evidence
    assert row.subject == "client-1 at 10.1.0.1: orders-0"
    assert (row.count, row.first_time_ns, row.last_time_ns) == (3, T + MS, T + 201 * MS)
    assert (row.place.capture_file, row.place.request_packet, row.place.response_packet) == (
        "shop.pcapng",
        10,
        11,
    )


def test_a_new_leader_that_does_not_know_its_epoch_yet_is_not_the_wrong_broker():
    rows = (many(3, PRODUCE, 100), produced(0, 3, error_code=ErrorCode.UNKNOWN_LEADER_EPOCH))
    assert "leader_moved" not in [one.name for one in report(*rows).findings]


def test_an_answer_that_the_capture_may_have_lost_is_no_time_out():
    lossy = report(unanswered(PRODUCE, 0), [], [connection(1, lost_bytes=100)])
    assert [finding.name for finding in lossy.findings] == ["capture_loss"]


@pytest.mark.parametrize(("lost", "is_told"), [(9, True), (10, False)])
def test_few_requests_without_a_response_say_nothing_where_the_capture_lost_many(
    lost: int, is_told: bool
) -> None:
    doubtful = [
        row for row in many(lost, PRODUCE, 1, status="unanswered") for row in (row | {"connection": 2},)
    ]
    found = report([*unanswered(PRODUCE, 0), *doubtful], [], [connection(1), connection(2, lost_bytes=100)])
    assert ("unanswered_timeout" in {finding.name for finding in found.findings}) is is_told


def test_a_broker_that_shook_hands_and_said_nothing_is_a_time_out():
    silent = report(unanswered(PRODUCE, 0), [], [connection(1, bytes_to_client=0)])
    unseen = report(unanswered(PRODUCE, 0), [], [connection(1, bytes_to_client=0, server_rtt_ns=None)])
    assert [finding.name for finding in silent.findings] == ["unanswered_timeout"]
    assert [finding.name for finding in unseen.findings] == ["capture_loss"]


@pytest.mark.parametrize(("apart_ms", "severity"), [(5_000, Severity.NOTE), (500, Severity.WARNING)])
def test_partitions_that_move_one_by_one_are_no_warning(apart_ms: int, severity: Severity) -> None:
    times = (0, 3, apart_ms, apart_ms + 3)
    rows = [exchange_of(1 + at % 2, at, PRODUCE, time) for at, time in enumerate(times)]
    moved = [
        row | {"connection": 1 + at % 2, "partition": at // 2}
        for at, row in enumerate(produced(0, len(times), error_code=6))
    ]
    hosts = [connection(number, client_host=f"10.1.0.{number}") for number in (1, 2)]
    found = {one.name: one.severity for one in report(rows, moved, hosts).findings}
    assert found["leader_moved"] is severity


@pytest.mark.parametrize(("lasted_ms", "severity"), [(200, Severity.NOTE), (2500, Severity.WARNING)])
def test_one_client_with_old_metadata_is_no_warning(lasted_ms: int, severity: Severity) -> None:
    rows = [exchange_of(1, at, PRODUCE, time) for at, time in enumerate((0, lasted_ms))]
    (finding,) = report(rows, produced(0, 2, error_code=6)).findings
    assert (finding.name, finding.severity) == ("leader_moved", severity)


def test_two_moves_of_a_leader_are_two_pieces_of_evidence():
    rows = [exchange_of(1, at, PRODUCE, time) for at, time in enumerate((0, 100, 60_000, 60_300))]
    (finding,) = report(rows, produced(0, 4, error_code=6)).findings
    assert [row.last_time_ns - row.first_time_ns for row in finding.evidence] == [300 * MS, 100 * MS]


def test_who_waited_for_the_broker_that_stopped():
    finding = findings_of("pause.pcapng")["unanswered_timeout"]
    evidence = finding.evidence
    assert finding.last_time_ns - finding.first_time_ns < 30 * SECOND  # it was stopped for fourteen
    assert {row.subject for row in evidence} >= {"orders-rdkafka at 127.0.0.1", "billing-1 at 127.0.0.1"}


@pytest.mark.parametrize("name", ["broker-restart.pcapng", "pause.pcapng", "sasl.pcapng"])
def test_findings_and_the_table_of_unanswered_requests_count_the_same(name: str) -> None:
    """A table that says 65 closed connections does not stand below a finding of 19."""
    found = findings_of(name)
    kinds = [found[kind] for kind in ("unanswered_timeout", "unanswered_cut") if kind in found]
    left = sum(int(number) for one in kinds for number in re.findall(r"\((\d+) more were left", one.title))
    counted = sum(row.count for one in kinds for row in one.evidence)
    table = sum(row.figures.unanswered_closed for row in recorded.analyzed(name)[0].apis)
    assert counted + left == table > 0


def test_a_finding_has_one_row_for_requests_of_one_client_api_and_server_that_hung_together() -> None:
    rows = [
        (row.subject, row.detail.partition(": ")[0], row.first_time_ns // (5 * SECOND))
        for row in findings_of("pause.pcapng")["unanswered_timeout"].evidence
    ]
    assert len(rows) == len(set(rows)) < 17


def test_a_follower_that_asks_an_old_leader_is_no_client():
    fetches = many(3, FETCH, 100, replica_id=2)
    found = {finding.name for finding in report(fetches, produced(1, 3, error_code=6)).findings}
    assert "leader_moved" not in found


def test_evidence_has_the_time_of_each_of_its_packets():
    slow = [exchange_of(1, 0, PRODUCE, 100, 5000 * MS, request_packet=7, response_packet=9)]
    found = {finding.name: finding for finding in report(slow, produced(0, 1, error_code=6)).findings}
    place = found["leader_moved"].evidence[0].place
    assert (place.request_packet, place.request_time_ns) == (7, T + 100 * MS)
    assert (place.response_packet, place.response_time_ns) == (9, T + 5100 * MS)


def test_cut_requests_add_up_to_what_the_table_says():
    gone = {"status": "unanswered", "latency_ns": None}
    rows = [exchange_of(1, at, PRODUCE, 59_000 + at, **gone) for at in range(3)]
    rows += [exchange_of(1, 3 + at, FETCH, 59_010 + at, **gone) for at in range(4)]
    summary = report(rows, [], [connection(1)])
    (cut,) = (finding for finding in summary.findings if finding.name == "unanswered_cut")
    assert sum(row.figures.unanswered_closed for row in summary.apis) == 7
    assert cut.title.startswith("3 requests cut off: ")
    assert cut.title.endswith(" (4 more were left behind by clients that ended)")
    assert [row.count for row in cut.evidence] == [3]


@pytest.mark.parametrize(
    ("ended", "severity"),
    [
        ({"closed_by": "client"}, Severity.NOTE),
        ({"closed_by": "server"}, Severity.WARNING),
        ({"closed_by": "client", "again": True}, Severity.WARNING),
    ],
    ids=["the client ended", "the server closed", "the client is back"],
)
def test_requests_under_way_when_their_client_ended_are_a_note(ended: Row, severity: Severity) -> None:
    others = [connection(2, last_time_ns=T + 90 * SECOND)]
    if ended.pop("again", False):
        others.append(
            connection(3, last_time_ns=T + 80 * SECOND, client_host="10.1.0.1", client_id="client-1")
        )
    facts = CaptureFacts(first_time_ns=T, last_time_ns=T + 90 * SECOND)
    summary = report(unanswered(PRODUCE, 59_000), [], [connection(1, **ended), *others], facts)
    (cut,) = (finding for finding in summary.findings if finding.name == "unanswered_cut")
    assert cut.severity is severity
    assert ("cut off by clients that ended" in cut.title) == (severity is Severity.NOTE)


@pytest.mark.parametrize(
    ("closed", "is_cut"),
    [
        ({"closed_ns": T + 49 * SECOND}, False),
        ({"closed_ns": T + 59_030 * MS, "server_rtt_ns": 40 * MS}, False),
        ({"closed_ns": T + 59_030 * MS, "server_rtt_ns": 20 * MS}, True),
        ({"closed_ns": T + 49 * SECOND, "closed_by": "client"}, True),
    ],
    ids=["after the FIN of the server", "within a round trip before it", "earlier", "the client closed"],
)
def test_a_request_that_crosses_the_close_of_a_server_is_not_cut_off(closed: Row, is_cut: bool) -> None:
    ends = {"closed_by": "server", "last_time_ns": T + 59_040 * MS, **closed}
    summary = report(unanswered(PRODUCE, 59_000), [], [connection(1, **ends)])
    assert ("unanswered_cut" in {finding.name for finding in summary.findings}) is is_cut
