"""Recorded traffic of other clusters, replayed into this one: what an independent consumer then finds there.

The truth is what the captures' packets hold, read without kdissect, and what the recorded clients said that
they wrote.
"""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from kdissect.cli.arguments import parse
from kdissect.cli.replay import replay
from kdissect.exchanges.filter import ExchangeFilter
from kdissect.replay.engine.run import Replay
from kdissect.replay.load.captured_fetch_sessions import UNTOLD
from kdissect.replay.net.auth import HandshakeFailed
from kdissect.replay.results.run_comparison import compare
from kdissect.replay.results.run_files import read_run
from kdissect.replay.safety import AbortRun, Admission
from kdissect.replay.settings import Credentials, Groups, Pace, Tls
from tests.helpers.conversations import CAPTURES
from tests.helpers.tiers import thorough_after
from tests.lab.broker_requests import view
from tests.replay.conftest import PASSWORD, USER, SecuredCluster
from tests.replay.play import Played, beginning_late, play, settings
from tests.replay.reading import committed, read_all, share_starts
from tests.replay.truth import Sent, by_writer, produced, writer_of

pytestmark = pytest.mark.broker

MANIFEST = {each["name"]: each for each in json.loads((CAPTURES / "manifest.json").read_text())["captures"]}


FAILURES = {  # what rewriting is there to prevent; see test_failures
    "CORRUPT_MESSAGE",
    "FETCH_SESSION_ID_NOT_FOUND",
    "INVALID_FETCH_SESSION_EPOCH",
    "UNKNOWN_TOPIC_ID",
    "UNKNOWN_LEADER_EPOCH",
    "FENCED_LEADER_EPOCH",
    "INVALID_PRODUCER_ID_MAPPING",
    "OUT_OF_ORDER_SEQUENCE_NUMBER",
    "UNKNOWN_MEMBER_ID",
}


MISSED_SESSION = {"UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "FENCED_MEMBER_EPOCH"}


FETCHED = {
    "fetched_captured": 0,
    "fetched_replayed": 0,
    "amplification": None,
}  # polls differ from run to run


def delivered(name: str) -> dict[str, int]:
    """Return how many records each recorded producer had acknowledged (or sent, with acks 0)."""
    return {
        client["client_id"]: sum(client["outcome"]["records"].values())
        for client in MANIFEST[name]["clients"]
        if client["role"] == "produce"
    }


def everything(
    cluster: SecuredCluster, prefix: str, topics: list[str], least: int = 0, **how: str
) -> list[Sent]:
    """Read topics.

    Again until `least` records can be read: with acks=1 the last ones may not be on the follower yet.
    """
    deadline = time.monotonic() + 30
    while True:
        found = read_all(cluster.bootstrap, [prefix + topic for topic in topics], **how)
        if sum(map(len, found.values())) >= least or time.monotonic() > deadline:
            return [record for topic in topics for record in found[prefix + topic]]


def assert_each_once_in_order(capture: str, found: list[Sent], writers: set[str]) -> None:
    expected = {
        where: records for where, records in by_writer(produced(capture)).items() if where[0] in writers
    }
    there: dict[tuple[str, int], list[Sent]] = {}
    for record in found:
        there.setdefault((writer_of(record.key), record.partition), []).append(record)
    assert {where for where in there if where[0] in writers} == set(expected)
    for where, records in expected.items():
        assert there[where] == records, f"{where}: {len(there[where])} instead of {len(records)}"


def assert_accounts(played: Played, capture: str) -> None:
    assert_sums(played)
    requests = MANIFEST[capture]["expected"]["requests"]
    if MANIFEST[capture]["exact"]:
        assert played.report["accounting"]["captured"] == sum(each["requests"] for each in requests)


def assert_sums(played: Played) -> None:
    """All that holds for every replay."""
    # As fast as can be, a reader may be through before there is anything to read.
    may_fail = {"fetches bring records"} if played.report["settings"]["pace"] == Pace.ASAP.value else set()
    assert played.report["run"]["stopped"] == ""
    new = {each["replayed"] for each in played.report["errors"] if each["kind"] in ("new", "mutated")}
    assert not new & FAILURES
    failed = [each for each in played.report["checks"] if not each["holds"]]
    assert [each for each in failed if each["check"] not in may_fail] == []
    sums = played.report["accounting"]
    assert sums["captured"] == len(played.pairs) == played.plan["capture"]["requests"]
    assert sums["sent"] + sums["skipped"] == sums["captured"]
    assert sums["sent"] == sum(sums["sent_as"].values())


def test_every_codec_and_every_acks(target: SecuredCluster, tmp_path: Path) -> None:
    played = play(settings(target, "steady-"), "steady.pcapng", tmp_path / "run")
    assert_accounts(played, "steady")
    assert played.unexpected() == []
    assert set(played.buckets) <= {"answered", "no answer due", "policy", "inter-broker"}, played.buckets
    found = everything(target, "steady-", ["orders", "payments", "clicks", "audit"], 1680)
    writers = delivered("steady")
    assert_each_once_in_order("steady.pcapng", found, set(writers))
    assert len(found) == sum(writers.values()) == 1680
    again = play(settings(target, "steady-", processes=2), "steady.pcapng", tmp_path / "again")
    assert json.loads((again.folder / "run.json").read_text())["processes"] == 2
    assert again.report["records"] | FETCHED == played.report["records"] | FETCHED
    assert all(
        each["captured"] == each["replayed"] > 0
        for each in again.report["records"]["topics"]
        if each["topic"] != "clicks"
    )
    twice = everything(target, "steady-", ["orders", "payments", "clicks", "audit"], 2 * 1680)
    assert len(twice) == 2 * 1680


def test_transactions(target: SecuredCluster, tmp_path: Path) -> None:
    played = play(settings(target, "bank-", groups=Groups.SIMPLE), "transactions.pcapng", tmp_path / "run")
    assert_accounts(played, "transactions")
    assert played.unexpected() == []
    idempotent = delivered("transactions")
    assert_each_once_in_order("transactions.pcapng", everything(target, "bank-", ["audit"]), set(idempotent))
    both = {"bank-java", "bank-rdkafka"}
    assert_each_once_in_order("transactions.pcapng", everything(target, "bank-", ["transfers"]), both)
    seen = everything(target, "bank-", ["transfers"], isolation="read_committed")
    numbers = {
        writer: sorted(
            int(each.key.decode().rpartition("-")[2]) for each in seen if writer_of(each.key) == writer
        )
        for writer in both
    }
    committed_numbers = [
        number for number in range(108) if number // 6 % 3 != 2
    ]  # every third transaction was aborted
    assert numbers == {"bank-java": committed_numbers, "bank-rdkafka": committed_numbers}
    booked = everything(target, "bank-", ["booked"], isolation="read_committed")
    assert len(booked) == 144
    ends = committed(target.bootstrap, "bank-booker", "bank-transfers", 3)
    assert all(offset > 0 for offset in ends), ends


@pytest.mark.thorough
def test_captured_retries_are_not_doubled(target: SecuredCluster, tmp_path: Path) -> None:
    played = play(settings(target, "restart-"), "broker-restart.pcapng", tmp_path / "run")
    assert_accounts(played, "broker-restart")
    assert played.unexpected() == []
    assert played.buckets["retry"] > 5
    assert played.counts["split"] > 0
    assert played.report["apis"]["OffsetForLeaderEpoch"]["answered"] == 7
    writers = delivered("broker-restart")
    found = everything(target, "restart-", ["orders"], sum(writers.values()))
    # librdkafka without idempotence batches anew when it retries: its records were tried in other batches
    # before.
    assert_each_once_in_order("broker-restart.pcapng", found, set(writers))
    assert len(found) == sum(writers.values()) == 1280


def test_old_clients(target: SecuredCluster, tmp_path: Path) -> None:
    played = play(settings(target, "old-"), "old-broker.pcap", tmp_path / "run")
    assert_accounts(played, "old-broker")
    assert played.unexpected() == []
    found = everything(target, "old-", ["ancient", "old"], 672)
    writers = delivered("old-broker")
    assert_each_once_in_order("old-broker.pcap", [each._replace(headers=()) for each in found], set(writers))
    assert len(found) == sum(writers.values()) == 672


def test_membership(target: SecuredCluster, tmp_path: Path) -> None:
    asked = settings(target, "groups-", groups=Groups.FULL, pace=Pace.SCHEDULE, speed=4.0)
    played = play(asked, "rebalances.pcapng", tmp_path / "run")
    sums = played.report["accounting"]
    assert sums["captured"] == sums["sent"] + sums["skipped"] == len(played.pairs)
    # Groups live by real timers: on a busy machine a member may miss its session, and be taken in again.
    # Nothing else may differ.
    unexpected = played.unexpected()
    assert {replayed for _, _, replayed, _ in unexpected} <= MISSED_SESSION, unexpected
    assert sum(requests for *_, requests in unexpected) < 0.01 * sums["sent"], unexpected
    by_api = played.report["apis"]
    assert by_api["JoinGroup"]["answered"] > 20
    assert by_api["ConsumerGroupHeartbeat"]["answered"] > 20
    assigned = [
        entry["assigned"]
        for pair in played.pairs
        if pair["api"] == "SyncGroup"
        for answer in pair["answers"]
        for entry in answer["digest"]
        if not entry["error"]
    ]
    assert sum(assigned) > 20
    assert next(each for each in played.report["checks"] if each["check"] == "members have partitions")[
        "holds"
    ]
    assert played.report["records"]["fetched_replayed"] > 300


def test_members_and_sessions_older_than_the_capture(target: SecuredCluster, tmp_path: Path) -> None:
    """Twelve members of four groups, of both protocols, are at work when the capture begins."""
    late = beginning_late("rebalances.pcapng", 8520, tmp_path)
    cluster_id = AdminClient({"bootstrap.servers": target.bootstrap}).list_topics(timeout=20).cluster_id
    asked = settings(
        target, "late-", groups=Groups.FULL, pace=Pace.SCHEDULE, speed=2.0, known_target=cluster_id
    )
    played = play(asked, late, tmp_path / "run")
    assert (
        sum(played.report["accounting"]["skipped_as"].values())
        == played.buckets["policy"] + played.buckets["headless"]
    )
    assert played.counts["members let in that are older than the capture"] >= 10
    reasons = {pair["reason"] for pair in played.pairs if pair["bucket"] == "headless"}
    assert reasons == {UNTOLD.reason}  # idle consumers: their fetches bring nothing that would tell
    assert any("older than what is sent: they join first" in said for said in played.plan["warnings"])
    of_members = [
        each
        for each in played.pairs
        if each["api"] in ("Heartbeat", "OffsetCommit", "ConsumerGroupHeartbeat", "LeaveGroup")
    ]
    assert len(of_members) > 80
    # Groups live by real timers: on a busy machine a member may miss its session.
    assert sum(each["bucket"] == "answered" for each in of_members) > 0.9 * len(of_members)
    assert sum(requests for _, _, _, requests in played.unexpected()) < 10, played.unexpected()


def test_topics_are_prepared(target: SecuredCluster, capfd: pytest.CaptureFixture[str]) -> None:
    asked = [
        "replay",
        "prepare",
        str(CAPTURES / "transactions.pcapng"),
        "--target",
        target.bootstrap,
        "--prefix",
        "made-",
        "--quiet",
    ]
    for more, outcome in (([], "would be created"), (["--execute"], "created")):
        assert replay(parse([*asked, *more, "--format", "json"])) == 0
        told = json.loads(capfd.readouterr().out)["topics"]
        assert {each["name"]: (each["partitions"], each["outcome"]) for each in told} == dict.fromkeys(
            ("made-audit", "made-booked", "made-transfers"), (3, outcome)
        )
    assert replay(parse(asked)) == 0
    assert capfd.readouterr().out == "every topic is on the target already\n"


def test_share_groups(target: SecuredCluster, tmp_path: Path) -> None:
    asked = settings(
        target,
        "share-",
        groups=Groups.FULL,
        pace=Pace.SCHEDULE,
        speed=3.0,
        filter=lambda _start_ns: ExchangeFilter(clients=("sharer", "bank")),
    )
    played = play(asked, "cluster-life.pcapng", tmp_path / "run")
    # The first share group of a cluster may find that the topic with its state is still being made.
    made = ("ShareFetch", "NONE", "UNKNOWN_SERVER_ERROR")
    assert {tuple(each[:3]) for each in played.unexpected()} <= {made}
    sharing = [
        pair for pair in played.pairs if pair["api"].startswith("Share") and pair["client_id"] == "sharer"
    ]
    assert {pair["api"] for pair in sharing if pair["bucket"] == "answered"} == {
        "ShareGroupHeartbeat",
        "ShareFetch",
        "ShareAcknowledge",
    }
    assert {pair["bucket"] for pair in sharing} <= {"answered", "dependency", "policy"}
    first: dict[int, int] = {}  # partition -> the first offset that was handed out
    acquired = 0
    for answer in (answer for pair in sharing for answer in pair["answers"] if pair["api"] == "ShareFetch"):
        acquired += sum(entry.get("acquired", 0) for entry in answer["digest"])
        for each in (each for topic in answer["body"]["responses"] for each in topic["partitions"]):
            for held in each["acquired_records"]:
                first.setdefault(each["partition_index"], held["first_offset"])
    assert acquired > 12  # of 36 in the capture
    # All in front of where the group begins now was acknowledged, and the broker took it.
    starts = share_starts(target, "share-sharers", "share-orders", [0, 1])
    assert all(starts[partition] > offset for partition, offset in first.items()), (starts, first)


@pytest.mark.parametrize("mechanism", thorough_after(1, ["SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"]))
def test_login_and_tls(target: SecuredCluster, authority: Path, tmp_path: Path, mechanism: str) -> None:
    if mechanism != "PLAIN":
        target.add_scram_user(mechanism)
    asked = settings(
        target,
        f"secure-{mechanism.lower()}-",
        filter=lambda _start_ns: ExchangeFilter(clients=("payments-lz4",)),
        credentials=Credentials(mechanism, USER, PASSWORD),
        tls=Tls(str(authority)),
    )
    asked = dataclasses.replace(asked, target=(("127.0.0.1", target.secure_ports[1]),))
    played = play(asked, "steady.pcapng", tmp_path / "run")
    assert_accounts(played, "steady")
    assert played.unexpected() == []
    assert len(everything(target, asked.prefix, ["payments"], 240)) == 240
    assert all(PASSWORD not in path.read_text() for path in played.folder.iterdir())
    wrong = dataclasses.replace(asked, credentials=Credentials(mechanism, USER, "wrong"))
    with pytest.raises(HandshakeFailed, match=f"SASL {mechanism} as {USER}"):
        play(wrong, "steady.pcapng", tmp_path / "wrong")
    untrusting = dataclasses.replace(asked, tls=Tls())
    with pytest.raises(AbortRun, match="TLS"):
        play(untrusting, "steady.pcapng", tmp_path / "untrusting")


def test_the_target_may_not_be_the_source(target: SecuredCluster, tmp_path: Path) -> None:
    """A capture of this very cluster, and one whose broker's address the target has."""
    with closing(Replay(settings(target, "self-"), [str(CAPTURES / "steady.pcapng")])) as replay:
        replay.learn()
        replay.loaded.source.cluster_ids.add(replay.target.cluster_id or "")
        with pytest.raises(AbortRun, match="captured cluster itself"):
            replay.learn()
        replay.loaded.source.addresses.add(("127.0.0.1", target.client_ports[0]))
        replay.cluster.admission = Admission(replay.settings, replay.loaded.source)
        with pytest.raises(AbortRun, match="nothing is sent there"):
            replay.learn()


@pytest.mark.thorough
def test_a_broker_that_dies_is_in_the_report(target: SecuredCluster, tmp_path: Path) -> None:
    asked = settings(
        target, "dying-", pace=Pace.SCHEDULE, speed=2.0, answer_deadline_s=2.0, dependency_deadline_s=2.0
    )
    victim = target.nodes[1]

    def kill_while_playing() -> None:
        while not ((seen := view(target.client_ports[0])) and "dying-orders" in seen.topics):
            time.sleep(0.1)
        while len(everything(target, "dying-", ["orders"])) < 240:  # half of them
            time.sleep(0.1)
        victim.kill()

    threading.Thread(target=kill_while_playing, daemon=True).start()
    try:
        played = play(asked, "steady.pcapng", tmp_path / "run")
    finally:
        victim.kill()
        victim.start()
        target.wait_until_ready()
    sums = played.report["accounting"]
    assert sums["captured"] == sums["sent"] + sums["skipped"]
    assert sums["captured"] == sum(pair.get("requests", 1) for pair in played.pairs)  # some counted together
    assert played.report["verdict"] != "pass"
    lost = {pair["bucket"] for pair in played.pairs} & {"closed", "failed to send", "timed out", "dependency"}
    errors = {each["replayed"] for each in played.report["errors"] if each["kind"] == "new"}
    assert lost or errors


@pytest.mark.thorough
@pytest.mark.parametrize("processes", [2, 1])
def test_a_replayer_that_is_killed_leaves_what_it_knew(
    target: SecuredCluster, tmp_path: Path, processes: int
) -> None:
    name = f"killed-{processes}-"
    play(
        settings(target, name, filter=lambda start_ns: ExchangeFilter(until_ns=start_ns + 1)),
        "steady.pcapng",
        tmp_path / "begun",
    )
    capture, out = CAPTURES / "steady.pcapng", tmp_path / "run"
    command = [
        sys.executable,
        "-m",
        "kdissect",
        "replay",
        "run",
        capture,
        "--target",
        target.bootstrap,
        "--prefix",
        name,
        "--processes",
        str(processes),
        "--execute",
        "--out",
        out,
    ]
    started = subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL)
    while len(everything(target, name, ["orders"])) < 20:
        time.sleep(0.2)
    started.kill()
    started.wait()
    deadline = time.monotonic() + 60
    while not out.exists() and time.monotonic() < deadline:
        time.sleep(0.2)
    summary, pairs = read_run(out)
    found = list(pairs)
    report = compare(summary, found)
    assert report["verdict"] == "invalid"
    assert "incomplete: the replayer was killed" in report["because"]
    counted = sum(pair.get("requests", 1) for pair in found)
    assert report["accounting"]["captured"] == counted == summary["plan"]["capture"]["requests"]
    assert 0 < report["accounting"]["sent_as"]["answered"] < 1177
    produced = [pair for pair in found if pair["api"] == "Produce" and pair.get("answers")]
    assert any(pair["answers"][0]["digest"] for pair in produced)
    there = len(everything(target, name, ["orders"]))
    time.sleep(1)
    assert len(everything(target, name, ["orders"])) == there  # nobody goes on
