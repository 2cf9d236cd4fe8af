"""Rebalances, members that expire, commits that fail, and transactions that stay open."""

from typing import Any

import pytest

from kdissect.report.model.findings import Severity
from tests.helpers.finding_cases import (
    FindingCase,
    check_case,
    check_recorded_case,
    findings_of,
    manifest_entry,
)
from tests.helpers.paper_capture import partition
from tests.helpers.report_rows import (
    ADD_PARTITIONS,
    COMMIT,
    END_TXN,
    HEARTBEAT,
    JOIN,
    LEAVE,
    PRODUCE,
    connection,
    exchange_of,
    failing,
    report,
)


def joins(seconds: list[int], interrupted: int) -> list[dict[str, Any]]:
    rows = [exchange_of(1, at, JOIN, 1000 * second, group_id="readers") for at, second in enumerate(seconds)]
    return rows + [
        exchange_of(2, at, HEARTBEAT, 1000 * at, group_id="readers", error_code=27)
        for at in range(interrupted)
    ]


def transacted(end_ms: int | None) -> list[dict[str, Any]]:
    """A transaction that is worked on for a second, ended or not, in a capture of a minute."""
    more = {"transactional_id": "bank"}
    rows = [
        exchange_of(1, 0, ADD_PARTITIONS, 0, **more),
        exchange_of(1, 1, PRODUCE, 1000, **more),
        exchange_of(2, 0, HEARTBEAT, 59_000),
    ]
    return rows + ([] if end_ms is None else [exchange_of(1, 2, END_TXN, end_ms, **more)])


CASES: dict[str, FindingCase] = {
    "rebalance_storm": FindingCase(
        fires=(joins([0, 5, 10, 15, 20], 4),),
        quiet=(joins([0, 1, 2, 3], 4),),
        incident="rebalances.pcapng",
    ),
    "member_expired": FindingCase(
        fires=(failing(1, HEARTBEAT, 25, [0]),),
        quiet=(failing(1, HEARTBEAT, 27, [0]),),
        incident="expired.pcapng",
    ),
    "commit_failed": FindingCase(
        fires=(failing(1, COMMIT, 22, [0]),),
        quiet=(failing(1, HEARTBEAT, 22, [0]),),
        incident="expired.pcapng",
    ),
    "transactions_open": FindingCase(
        fires=(transacted(None),),
        quiet=(transacted(1500),),
        incident="neglect.pcapng",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_rule_fires_and_is_quiet(name: str) -> None:
    check_case(name, CASES[name])


@pytest.mark.parametrize("name", CASES)
def test_a_finding_has_a_recorded_incident_and_a_quiet_capture(name: str) -> None:
    check_recorded_case(name, CASES[name])


def test_each_generation_is_a_rebalance():
    """Six generations of which some follow each other within two seconds are six rebalances, not four."""
    rows = [
        exchange_of(1, at, JOIN, 1000 * second, group_id="readers", generation=at + 1)
        for at, second in enumerate((0, 1, 5, 6, 10, 15))
    ]
    rows += [exchange_of(2, at, HEARTBEAT, 1000 * at, group_id="readers", error_code=27) for at in range(4)]
    (finding,) = (finding for finding in report(rows).findings if finding.name == "rebalance_storm")
    assert finding.evidence[0].detail.startswith("6 rebalances")


def test_a_leave_without_a_member_id_puts_nobody_out():
    leaves = failing(1, LEAVE, 25, [0, 100], group_id="readers")
    assert "member_expired" not in {finding.name for finding in report(leaves).findings}


def test_refused_commits_are_counted_by_request_and_not_by_partition():
    commits = failing(1, COMMIT, 22, [0, 100], group_id="readers")
    partitions = [
        partition(1, ordinal, 8, number, None, topic="orders", error_code=22)
        for ordinal in range(2)
        for number in range(12)
    ]
    found = {finding.name: finding for finding in report(commits, partitions).findings}
    assert found["commit_failed"].title == "2 offset commits failed"
    assert found["commit_failed"].count == 2


def test_members_that_a_commit_of_many_partitions_put_out_are_counted_by_request():
    commits = failing(1, COMMIT, 25, [0, 100], group_id="readers")
    partitions = [
        partition(1, ordinal, 8, number, None, topic="orders", error_code=25)
        for ordinal in range(2)
        for number in range(12)
    ]
    found = {finding.name: finding for finding in report(commits, partitions).findings}
    assert found["member_expired"].title == "Group members removed, as 2 requests told them"


def test_what_set_a_rebalance_off():
    def group(
        number: int, api: tuple[int, str, int], second: int, ordinal: int, **more: Any
    ) -> dict[str, Any]:
        return exchange_of(number, ordinal, api, 1000 * second, group_id="readers", **more)

    rows = [
        group(1, JOIN, 0, 0),
        group(2, JOIN, 10, 0),
        group(1, JOIN, 10, 1),
        group(2, LEAVE, 19, 1),
        group(1, JOIN, 20, 2),
        group(2, HEARTBEAT, 29, 2, error_code=25),
        group(2, JOIN, 30, 3),
        group(1, JOIN, 30, 3),
        group(1, JOIN, 50, 4),
        *(group(1, HEARTBEAT, 10 * at, 50 + at, error_code=27) for at in (1, 2, 3)),
    ]
    found = {finding.name: finding for finding in report(rows).findings}
    detail = found["rebalance_storm"].evidence[0].detail
    assert detail.startswith("5 rebalances")
    for words in (
        "client-1 at 10.1.0.1 joining",
        "client-2 at 10.1.0.2 joining",
        "client-2 at 10.1.0.2 leaving",
    ):
        assert words in detail
    assert detail.endswith("and others")


def test_a_member_that_leaves_and_closes_did_not_miss_its_poll():
    left = [exchange_of(1, 0, JOIN, 0, group_id="g"), exchange_of(1, 1, LEAVE, 5000, group_id="g")]
    same, other = (
        [*left, exchange_of(number, 2, JOIN, 9000, group_id="g", client_id="client-1")] for number in (1, 2)
    )
    ends = [connection(1), connection(2, client_host="10.1.0.1")]
    (finding,) = report(same, [], ends).findings
    assert (finding.name, finding.count) == ("member_expired", 1)
    assert "after up to 4.00s" in finding.evidence[0].detail
    assert not report(other, [], ends).findings


def test_members_expire_by_session_and_by_poll_interval():
    entry = manifest_entry("expired.pcapng")
    logged = {(row["api_name"], row["error_name"]): row["responses"] for row in entry["expected"]["errors"]}
    rows = findings_of("expired.pcapng")["member_expired"].evidence
    put_out = [row for row in rows if row.subject.startswith("frozen")]
    assert sum(row.count for row in put_out) == sum(
        count for (_, error), count in logged.items() if error == "UNKNOWN_MEMBER_ID"
    )
    (dawdler,) = (row for row in rows if row.subject.startswith("dawdler"))
    assert "max.poll.interval.ms" in dawdler.detail
    (said,) = (row["outcome"]["failed"] for row in entry["clients"] if row["client_id"] == "dawdler")
    assert 1 <= dawdler.count <= said["_MAX_POLL_EXCEEDED"]  # whoever is told to end does not come back
    commits = findings_of("expired.pcapng")["commit_failed"]
    assert commits.count == logged["OffsetCommit", "UNKNOWN_MEMBER_ID"]
    assert commits.severity is Severity.WARNING


def test_what_the_rebalances_say():
    storm = findings_of("rebalances.pcapng")["rebalance_storm"]
    groups = {row.subject for row in storm.evidence}
    assert {"cooperative-java", "eager-python", "eager-aio"} <= groups
    assert all(row.place.request_packet for row in storm.evidence)
