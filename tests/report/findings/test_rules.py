"""Each rule on a hand-made table where it fires and on one where it does not.

The recorded captures; what the terminal shows.
"""

import json
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kdissect.capture.index.index import index_captures
from kdissect.capture.inputs import open_inputs
from kdissect.capture.segment_index import PIECES, Counts
from kdissect.report.build.report import build_report
from kdissect.report.findings.rules import RULES
from kdissect.report.model.summary import CaptureFacts, Severity
from kdissect.report.partials import (
    merge,
    summarise,
)
from kdissect.spark import tasks
from kdissect.spark.capture_facts import capture_facts
from kdissect.tables.build import dissect_batches
from kdissect.tables.schemas import (
    CONNECTIONS,
    EXCHANGES,
    PARTITIONS,
)
from kdissect.text import (
    format_duration,
)
from tests.report import paper_capture as handmade
from tests.report.paper_capture import MS, US, T

CAPTURES = Path(__file__).parents[3] / "captures"
SECOND = 10**9
NEVER = None

PRODUCE, FETCH, METADATA = (0, "Produce", 9), (1, "Fetch", 13), (3, "Metadata", 12)
LEAVE = (13, "LeaveGroup", 5)
JOIN, HEARTBEAT, COMMIT = (11, "JoinGroup", 9), (12, "Heartbeat", 4), (8, "OffsetCommit", 9)
END_TXN, VOTE = (26, "EndTxn", 3), (52, "Vote", 1)
ADD_PARTITIONS, SASL = (24, "AddPartitionsToTxn", 3), (36, "SaslAuthenticate", 2)


def connection(number: int, **more: Any) -> dict[str, Any]:
    """A connection seen in full, open for a minute."""
    counts = dict.fromkeys(("bytes_to_server", "bytes_to_client", "packets"), 1000) | dict.fromkeys(
        (
            "lost_bytes",
            "zero_windows",
            "retransmitted_segments",
            "conflicting_segments",
            "out_of_order_segments",
            "duplicate_packets",
        ),
        0,
    )
    own = {
        "connection": number,
        "client_host": f"10.1.0.{number}",
        "client_port": 40000 + number,
        "server_host": "10.0.0.1",
        "server_port": 9092,
        "first_time_ns": T,
        "last_time_ns": T + 60 * SECOND,
        "opened": "handshake",
        "closed": "fin",
        "protocol": "kafka",
        "server_rtt_ns": 200 * US,
        "client_id": f"client-{number}",
        "faults": 0,
    }
    return counts | own | more


def ask(
    number: int, ordinal: int, api: tuple[int, str, int], at_ms: int, latency: int | None = MS, **more: Any
) -> dict[str, Any]:
    """An exchange without error, if it is answered."""
    return handmade.exchange(number, ordinal, api, at_ms, latency, client_id=f"client-{number}") | more


def failing(
    number: int, api: tuple[int, str, int], code: int, times: list[int], **more: Any
) -> list[dict[str, Any]]:
    """Exchanges with an error, at milliseconds."""
    return [
        ask(number, at, api, time, error_code=code, error_count=1, **more) for at, time in enumerate(times)
    ]


def produced(api_key: int, ordinals: int, **more: Any) -> list[dict[str, Any]]:
    """One partition row per exchange of connection 1."""
    return [
        handmade.partition(1, ordinal, api_key, 0, None, topic="orders") | more for ordinal in range(ordinals)
    ]


def report(
    exchanges: list[dict[str, Any]],
    partitions: Sequence[dict[str, Any]] = (),
    connections: list[dict[str, Any]] | None = None,
):
    """Compose a report of rows."""
    tables = {
        "connections": handmade.table(
            [connection(1), connection(2)] if connections is None else connections, CONNECTIONS
        ),
        "exchanges": handmade.table(exchanges, EXCHANGES),
        "partitions": handmade.table(list(partitions), PARTITIONS),
    }
    return build_report(summarise(tables), CaptureFacts())


def many(
    count: int,
    api: tuple[int, str, int],
    step_ms: float,
    latency: int | None = MS,
    number: int = 1,
    **more: Any,
):
    """Exchanges at a steady pace."""
    return [ask(number, at, api, int(at * step_ms), latency, **more) for at in range(count)]


def unanswered(api: tuple[int, str, int], at_ms: int) -> list[dict[str, Any]]:
    return [ask(1, 0, api, at_ms, NEVER, status="unanswered")]


def joins(seconds: list[int], interrupted: int) -> list[dict[str, Any]]:
    rows = [ask(1, at, JOIN, 1000 * second, group_id="readers") for at, second in enumerate(seconds)]
    return rows + [
        ask(2, at, HEARTBEAT, 1000 * at, group_id="readers", error_code=27) for at in range(interrupted)
    ]


def refused_syns(count: int, **more: Any) -> list[dict[str, Any]]:
    silent = {
        "bytes_to_server": 0,
        "bytes_to_client": 0,
        "protocol": "unknown",
        "server_rtt_ns": None,
        "closed": "rst",
    }
    return [connection(10 + at, **(silent | more)) for at in range(count)]


def two_brokers(slow_ns: int) -> tuple[Any, ...]:
    rows = many(150, PRODUCE, 10, MS) + many(150, PRODUCE, 10, slow_ns, number=2)
    return rows, [], [connection(1), connection(2, server_host="10.0.0.2")]


def written(batches: int, records: int, size: int, codec: str, **sampled: int) -> tuple[Any, ...]:
    row = {"records": records, "batches": 1, "record_bytes": size, "codec": codec, **sampled}
    return many(batches, PRODUCE, 5), produced(0, batches, **row)


def fetched(lags: list[int], step_ms: int) -> tuple[Any, ...]:
    """Fetches of one partition, so many records behind."""
    rows = [
        handmade.partition(1, at, 1, 0, None, topic="orders", offset=10_000, high_watermark=10_000 + lag)
        for at, lag in enumerate(lags)
    ]
    return many(len(lags), FETCH, step_ms), rows


def shared(polls: bool) -> list[dict[str, Any]]:
    """Requests sent while another is under way, on a connection that polls or does not."""
    rows = many(20, METADATA, 600, 400 * MS, in_flight=2)
    return rows + ([ask(1, 90, FETCH, 5, 500 * MS, idle_wait=True)] if polls else [])


def transacted(end_ms: int | None) -> list[dict[str, Any]]:
    """A transaction that is worked on for a second, ended or not, in a capture of a minute."""
    more = {"transactional_id": "bank"}
    rows = [
        ask(1, 0, ADD_PARTITIONS, 0, **more),
        ask(1, 1, PRODUCE, 1000, **more),
        ask(2, 0, HEARTBEAT, 59_000),
    ]
    return rows + ([] if end_ms is None else [ask(1, 2, END_TXN, end_ms, **more)])


FAR = {"server_rtt_ns": 20 * MS, "client_rtt_ns": 20 * MS}

CASES: dict[str, tuple[tuple[Any, ...], tuple[Any, ...]]] = {
    "unanswered_timeout": ((unanswered(PRODUCE, 0),), (unanswered(PRODUCE, 59_000),)),
    "unanswered_cut": ((unanswered(PRODUCE, 59_000),), (unanswered(FETCH, 59_000),)),
    "authentication_failed": ((failing(1, SASL, 58, [0]),), (failing(1, SASL, 0, [0]),)),
    "corrupt_records": (
        (many(1, PRODUCE, 1), produced(0, 1, error_code=2)),
        (many(1, PRODUCE, 1), produced(0, 1)),
    ),
    "sequence_gap": (
        (many(1, PRODUCE, 1), produced(0, 1, error_code=45)),
        (many(1, PRODUCE, 1), produced(0, 1, error_code=6)),
    ),
    "producer_fenced": ((failing(1, ADD_PARTITIONS, 90, [0]),), (failing(1, ADD_PARTITIONS, 51, [0]),)),
    "refused_connections": (([], [], refused_syns(3)), ([], [], refused_syns(3, server_rtt_ns=US))),
    "leader_moved": (
        (many(3, PRODUCE, 100), produced(0, 3, error_code=6)),
        (many(3, PRODUCE, 100), produced(0, 3)),
    ),
    "retriable_errors_lasted": (
        (many(8, PRODUCE, 1000), produced(0, 8, error_code=7)),
        (many(8, PRODUCE, 6000), produced(0, 8, error_code=7)),
    ),
    "rebalance_storm": ((joins([0, 5, 10, 15], 4),), (joins([0, 1, 2, 3], 4),)),
    "member_expired": ((failing(1, HEARTBEAT, 25, [0]),), (failing(1, HEARTBEAT, 27, [0]),)),
    "commit_failed": ((failing(1, COMMIT, 22, [0]),), (failing(1, HEARTBEAT, 22, [0]),)),
    "not_authorized": ((failing(1, PRODUCE, 29, [0]),), (failing(1, PRODUCE, 58, [0]),)),
    "slow_broker": (two_brokers(9 * MS), two_brokers(2 * MS)),
    "network_slow": (
        (many(30, PRODUCE, 100, 45 * MS), [], [connection(1, **FAR)]),
        (many(30, PRODUCE, 100, 450 * MS), [], [connection(1, **FAR)]),
    ),
    "behind_long_poll": ((shared(polls=True),), (shared(polls=False),)),
    "lag_growing": (fetched([0, 300, 700, 1200], 2000), fetched([0, 1200, 900, 100], 2000)),
    "records_too_large": (
        (many(1, PRODUCE, 1), produced(0, 1, error_code=10)),
        (many(1, PRODUCE, 1), produced(0, 1, error_code=6)),
    ),
    "transactions_open": ((transacted(None),), (transacted(1500),)),
    "credentials_readable": (
        ([], [], [connection(1, sasl_mechanism="PLAIN")]),
        (
            [],
            [],
            [
                connection(1, sasl_mechanism="PLAIN", tls_version="TLS 1.3"),
                connection(2, sasl_mechanism="SCRAM-SHA-256"),
            ],
        ),
    ),
    "controller_moved": ((many(1, VOTE, 1),), (many(1, METADATA, 1),)),
    "throttled": ((many(2, PRODUCE, 10, throttle_ms=40),), (many(2, PRODUCE, 10),)),
    "metadata_storm": ((many(60, METADATA, 100),), (many(60, METADATA, 1000),)),
    "connection_churn": (
        (
            [],
            [],
            [
                connection(at, client_host="10.1.0.9", client_id="new", first_time_ns=T + at)
                for at in range(40)
            ],
        ),
        (
            [],
            [],
            [
                connection(at, client_host="10.1.0.9", client_id="new", first_time_ns=T + at * SECOND)
                for at in range(40)
            ],
        ),
    ),
    "empty_fetch_loop": (
        (many(200, FETCH, 5, MS, idle_wait=True), produced(1, 200)),
        (many(200, FETCH, 500, 500 * MS, idle_wait=True), produced(1, 200)),
    ),
    "kafka_4_refuses": ((many(1, (8, "OffsetCommit", 1), 1),), (many(1, (8, "OffsetCommit", 2), 1),)),
    "old_message_format": ((many(1, (0, "Produce", 2), 1),), (many(1, (2, "ListOffsets", 0), 1),)),
    "acks_none": (
        (many(1, PRODUCE, 1, NEVER, acks=0, status="no_response_expected"),),
        (many(1, PRODUCE, 1, acks=-1),),
    ),
    "acks_leader": ((many(1, PRODUCE, 1, acks=1),), (many(1, PRODUCE, 1, acks=-1),)),
    "tls_failed": (
        (
            [],
            [],
            [
                connection(
                    1, protocol="tls", tls_outcome="failed", tls_alert="unknown_ca", tls_alert_by="client"
                )
            ],
        ),
        (
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
    ),
    "clock_steps": ((many(2, PRODUCE, 1, -5),), (many(2, PRODUCE, 1, 5),)),
    "capture_loss": (([], [], [connection(1, lost_bytes=500)]), ([], [], [connection(1, lost_bytes=5)])),
    "transactions_concurrent": (
        (failing(1, ADD_PARTITIONS, 51, [0]),),
        (failing(1, ADD_PARTITIONS, 90, [0]),),
    ),
    "tiny_batches": (written(600, 1, 90, "none"), written(600, 40, 4000, "none")),
    "not_compressed": (
        written(600, 40, 4000, "none", sampled_bytes=4000, sampled_lz4_bytes=2000),
        written(600, 40, 4000, "lz4"),
    ),
}


def test_every_rule_has_a_case():
    assert [rule.name for rule in RULES] == [*dict.fromkeys(rule.name for rule in RULES)]
    assert {rule.name for rule in RULES} == CASES.keys()


@pytest.mark.parametrize("name", CASES)
def test_a_rule_fires_and_is_quiet(name):
    fires, quiet = (report(*case) for case in CASES[name])
    found = {finding.name: finding for finding in fires.findings}
    assert name in found
    assert name not in {finding.name for finding in quiet.findings}
    finding = found[name]
    assert finding.count == sum(row.count for row in finding.evidence) > 0
    assert finding.evidence[0].subject
    assert finding.means
    assert finding.next


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


def test_evidence_leads_to_the_packets():
    (finding,) = [one for one in report(*CASES["leader_moved"][0]).findings if one.name == "leader_moved"]
    (row,) = finding.evidence
    assert row.subject == "client-1 at 10.1.0.1: orders-0"
    assert (row.count, row.first_time_ns, row.last_time_ns) == (3, T + MS, T + 201 * MS)
    assert (row.place.capture_file, row.place.request_packet, row.place.response_packet) == (
        "shop.pcapng",
        10,
        11,
    )


def test_an_answer_that_the_capture_may_have_lost_is_no_time_out():
    lossy = report(unanswered(PRODUCE, 0), [], [connection(1, lost_bytes=100)])
    assert [finding.name for finding in lossy.findings] == ["capture_loss"]


def test_a_broker_that_shook_hands_and_said_nothing_is_a_time_out():
    silent = report(unanswered(PRODUCE, 0), [], [connection(1, bytes_to_client=0)])
    unseen = report(unanswered(PRODUCE, 0), [], [connection(1, bytes_to_client=0, server_rtt_ns=None)])
    assert [finding.name for finding in silent.findings] == ["unanswered_timeout"]
    assert [finding.name for finding in unseen.findings] == ["capture_loss"]


def test_two_moves_of_a_leader_are_two_pieces_of_evidence():
    rows = [ask(1, at, PRODUCE, time) for at, time in enumerate((0, 100, 60_000, 60_300))]
    (finding,) = report(rows, produced(0, 4, error_code=6)).findings
    assert [row.last_time_ns - row.first_time_ns for row in finding.evidence] == [300 * MS, 100 * MS]


def test_the_network_that_loses_segments():
    lossy = connection(1, packets=5000, retransmitted_segments=100)
    (finding,) = report(many(3, PRODUCE, 1), [], [lossy]).findings
    assert finding.name == "network_slow"
    assert finding.evidence[0].subject == "10.1.0.1 to 10.0.0.1"
    assert finding.evidence[0].detail == "1 connection: 2.0% of packets retransmitted"
    assert not report(
        many(3, PRODUCE, 1), [], [connection(1, packets=5000, retransmitted_segments=19)]
    ).findings


def test_lag_is_of_all_partitions_and_connections_of_a_client():
    exchanges, partitions = fetched([0, 400], 3000)
    other = [
        handmade.partition(2, at, 1, 1, None, topic="orders", offset=5, high_watermark=5 + 300 * at)
        for at in (0, 1)
    ]
    again = [row | {"client_id": "client-1"} for row in many(2, FETCH, 5500, number=2)]
    ends = [connection(1), connection(2, client_host="10.1.0.1", client_id="client-1")]
    (finding,) = report(exchanges + again, [*partitions, *other], ends).findings
    (row,) = finding.evidence
    assert (row.subject, row.count) == ("client-1 at 10.1.0.1: orders", 700)
    assert row.detail.startswith("from 0 to 700 records behind in 5.50s, 2 partitions")


def test_what_set_a_rebalance_off():
    def group(
        number: int, api: tuple[int, str, int], second: int, ordinal: int, **more: Any
    ) -> dict[str, Any]:
        return ask(number, ordinal, api, 1000 * second, group_id="readers", **more)

    rows = [
        group(1, JOIN, 0, 0),
        group(2, JOIN, 10, 0),
        group(1, JOIN, 10, 1),
        group(2, LEAVE, 19, 1),
        group(1, JOIN, 20, 2),
        group(2, HEARTBEAT, 29, 2, error_code=25),
        group(2, JOIN, 30, 3),
        group(1, JOIN, 30, 3),
        *(group(1, HEARTBEAT, 10 * at, 50 + at, error_code=27) for at in (1, 2, 3)),
    ]
    found = {finding.name: finding for finding in report(rows).findings}
    detail = found["rebalance_storm"].evidence[0].detail
    assert detail.startswith("4 rebalances")
    for words in (
        "client-1 at 10.1.0.1 joining",
        "client-2 at 10.1.0.2 joining",
        "client-2 at 10.1.0.2 leaving",
    ):
        assert words in detail
    assert detail.endswith("and others")


@cache
def found_in(name: str) -> dict[str, Any]:
    """Findings of a recorded capture."""
    seen = index_captures(open_inputs([str(CAPTURES / name)], "").files, 1 << 30)
    ordinals = [pa.record_batch({"split": [split.index]}) for split in seen.splits]
    pieces = pa.Table.from_batches(tasks.scan_step(ordinals, seen.splits, ()), PIECES)
    partial = merge(map(summarise, dissect_batches(pieces.to_batches(), seen.splits)))
    facts = capture_facts(seen, Counts(packets=seen.packets))
    return {finding.name: finding for finding in build_report(partial, facts).findings}


INCIDENTS = {
    "unanswered_timeout": "pause.pcapng",
    "authentication_failed": "sasl.pcapng",
    "tls_failed": "refusals.pcapng",
    "corrupt_records": "refusals.pcapng",
    "sequence_gap": "refusals.pcapng",
    "producer_fenced": "habits.pcapng",
    "unanswered_cut": "broker-restart.pcapng",
    "refused_connections": "broker-restart.pcapng",
    "leader_moved": "broker-restart.pcapng",
    "retriable_errors_lasted": "refusals.pcapng",
    "rebalance_storm": "rebalances.pcapng",
    "member_expired": "expired.pcapng",
    "commit_failed": "expired.pcapng",
    "not_authorized": "refusals.pcapng",
    "slow_broker": "limping.pcapng",
    "network_slow": "rough-link.pcapng",
    "behind_long_poll": "expired.pcapng",
    "lag_growing": "neglect.pcapng",
    "records_too_large": "neglect.pcapng",
    "transactions_open": "neglect.pcapng",
    "credentials_readable": "sasl.pcapng",
    "controller_moved": "cluster-life.pcapng",
    "throttled": "refusals.pcapng",
    "metadata_storm": "habits.pcapng",
    "connection_churn": "habits.pcapng",
    "empty_fetch_loop": "habits.pcapng",
    "kafka_4_refuses": "old-broker.pcap",
    "old_message_format": "old-broker.pcap",
    "clock_steps": "clock-step.pcapng",
    "capture_loss": "starved.pcapng",
    "transactions_concurrent": "transactions.pcapng",
    "acks_none": "steady.pcapng",
    "acks_leader": "steady.pcapng",
    "tiny_batches": "broker-restart.pcapng",
    "not_compressed": "refusals.pcapng",
}
"""By finding: a recorded incident in which it is found (what happened in each: captures/README.md)."""

HEALTHY = {"acks_none": "transactions.pcapng", "acks_leader": "transactions.pcapng"}
"""By finding: a healthy capture in which it is not found, if that is another than steady.pcapng."""

GRAVE: dict[str, set[str]] = {
    "steady.pcapng": set(),
    "transactions.pcapng": set(),
    "tls.pcapng": set(),
    "rebalances.pcapng": {"rebalance_storm"},
    "old-broker.pcap": {"kafka_4_refuses", "old_message_format"},
    "sasl.pcapng": {"authentication_failed", "credentials_readable", "unanswered_cut"},
    "neglect.pcapng": {"lag_growing", "records_too_large", "transactions_open"},
    "habits.pcapng": {"producer_fenced", "metadata_storm", "connection_churn", "empty_fetch_loop"},
    "limping.pcapng": {"slow_broker"},
    "pause.pcapng": {"unanswered_timeout", "leader_moved"},
    "refusals.pcapng": {
        "tls_failed",
        "corrupt_records",
        "sequence_gap",
        "retriable_errors_lasted",
        "not_authorized",
        "throttled",
    },
    "expired.pcapng": {"member_expired", "commit_failed", "behind_long_poll", "rebalance_storm"},
    "rough-link.pcapng": {"network_slow"},
    "starved.pcapng": {"capture_loss"},
    "clock-step.pcapng": {"clock_steps"},
}
"""By capture: all that is found in it beside notes.

In the others so much happens that no list of theirs would be a promise.
"""


def test_every_finding_has_a_recorded_incident_and_a_quiet_capture():
    assert INCIDENTS.keys() == {rule.name for rule in RULES}
    for name, capture in INCIDENTS.items():
        assert name in found_in(capture), f"{name} is not found in {capture}"
        healthy = HEALTHY.get(name, "steady.pcapng")
        assert name not in found_in(healthy), f"{name} is found in {healthy}"


@pytest.mark.parametrize("name", GRAVE)
def test_recorded_captures(name):
    found = found_in(name)
    assert {key for key, one in found.items() if one.severity is not Severity.NOTE} == GRAVE[name]


@pytest.mark.parametrize("capture", sorted(set(INCIDENTS.values())))
def test_evidence_of_incidents_says_when_and_where(capture):
    for name, finding in found_in(capture).items():
        for row in finding.evidence:
            assert row.count > 0, name
            assert row.first_time_ns is not None, name
            assert row.first_time_ns <= row.last_time_ns
            assert row.place is not None or name in ("tiny_batches", "not_compressed"), name
            if row.place is not None:
                assert row.place.request_packet or row.place.response_packet or row.place.connection, name


def told(capture: str) -> dict[str, Any]:
    """What brokers, clients and the tools of the lab said about a capture."""
    entries = json.loads((CAPTURES / "manifest.json").read_text())["captures"]
    (entry,) = (each for each in entries if each["file"] == capture)
    return entry


def by_subject(capture: str, finding: str) -> dict[str, Any]:
    """The rows of evidence by the client id (or address) that they begin with."""
    return {row.subject.split(" ")[0]: row for row in found_in(capture)[finding].evidence}


def test_refusals_are_those_that_the_broker_logged():
    entry = told("refusals.pcapng")
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
    (alerts,) = (r for r in found_in("refusals.pcapng")["tls_failed"].evidence if "unknown_ca" in r.detail)
    assert alerts.count == entry["noticed"]["TLS handshakes that failed in the broker's log"]


def test_members_expire_by_session_and_by_poll_interval():
    entry = told("expired.pcapng")
    logged = {(row["api_name"], row["error_name"]): row["responses"] for row in entry["expected"]["errors"]}
    rows = found_in("expired.pcapng")["member_expired"].evidence
    put_out = [row for row in rows if row.subject.startswith("frozen")]
    assert sum(row.count for row in put_out) == sum(
        count for (_, error), count in logged.items() if error == "UNKNOWN_MEMBER_ID"
    )
    (dawdler,) = (row for row in rows if row.subject.startswith("dawdler"))
    assert "max.poll.interval.ms" in dawdler.detail
    (said,) = (row["outcome"]["failed"] for row in entry["clients"] if row["client_id"] == "dawdler")
    assert 1 <= dawdler.count <= said["_MAX_POLL_EXCEEDED"]  # whoever is told to end does not come back
    commits = found_in("expired.pcapng")["commit_failed"]
    assert commits.count == logged["OffsetCommit", "UNKNOWN_MEMBER_ID"]
    assert commits.severity is Severity.WARNING


def test_what_a_starved_capture_lacks_is_told():
    assert told("starved.pcapng")["dropped_packets"] > 0
    finding = found_in("starved.pcapng")["capture_loss"]
    assert {row.subject.split(" ")[0] for row in finding.evidence} == {"reader", "writer"}


def test_where_the_clock_went_back():
    (row,) = found_in("clock-step.pcapng")["clock_steps"].evidence
    first = int(re.search(r"from packet (\d+) on", told("clock-step.pcapng")["edited"])[1])
    assert row.place.request_packet == first
    assert (
        "by up to 2.50s" in row.detail or "by up to 2.49s" in row.detail
    )  # less the time between the two packets


def test_a_capture_that_says_what_it_dropped():
    for dropped, expected in ((10, 1), (0, 0)):
        facts = CaptureFacts(packets=100, dropped_packets=dropped)
        found = build_report(
            summarise({"connections": handmade.table([connection(1)], CONNECTIONS)}), facts
        ).findings
        assert [one.name for one in found] == ["capture_loss"] * expected


def test_records_that_do_not_shrink_are_no_finding():
    for made, expected in ((300, ["not_compressed"]), (990, [])):
        fires = written(600, 40, 4000, "none", sampled_bytes=1000, sampled_lz4_bytes=made)
        assert [one.name for one in report(*fires).findings] == expected


def test_a_member_that_leaves_and_closes_did_not_miss_its_poll():
    left = [ask(1, 0, JOIN, 0, group_id="g"), ask(1, 1, LEAVE, 5000, group_id="g")]
    same, other = (
        [*left, ask(number, 2, JOIN, 9000, group_id="g", client_id="client-1")] for number in (1, 2)
    )
    ends = [connection(1), connection(2, client_host="10.1.0.1")]
    (finding,) = report(same, [], ends).findings
    assert (finding.name, finding.count) == ("member_expired", 1)
    assert "after up to 4.00s" in finding.evidence[0].detail
    assert not report(other, [], ends).findings


def test_what_the_rebalances_say():
    storm = found_in("rebalances.pcapng")["rebalance_storm"]
    groups = {row.subject for row in storm.evidence}
    assert {"cooperative-java", "eager-python", "eager-aio"} <= groups
    assert all(row.place.request_packet for row in storm.evidence)


def test_what_is_neglected_is_told_with_names_and_numbers():
    found = found_in("neglect.pcapng")
    (lag,) = found["lag_growing"].evidence
    assert lag.subject == "slow-reader at 127.0.0.1: clicks"
    assert lag.count > 500
    (large,) = found["records_too_large"].evidence
    assert (large.subject, large.count) == ("big-writer at 127.0.0.1: notes-0", 6)  # it sends six records
    (transaction,) = found["transactions_open"].evidence
    assert transaction.subject == "forgetful"


def test_who_waited_for_the_broker_that_stopped():
    finding = found_in("pause.pcapng")["unanswered_timeout"]
    evidence = finding.evidence
    assert finding.last_time_ns - finding.first_time_ns < 30 * SECOND  # it was stopped for fourteen
    assert {row.subject for row in evidence} >= {"orders-rdkafka at 127.0.0.1", "billing-1 at 127.0.0.1"}
