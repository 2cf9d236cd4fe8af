"""Each rail refuses: never-sent requests, the captured cluster, foreign addresses."""

from argparse import ArgumentTypeError
from ipaddress import ip_address
from typing import Any

import pytest

from kdissect.cli.arguments import parse
from kdissect.cli.replay_options import allowed_api, topic_id
from kdissect.protocol.api_keys import ADMIN, INTER_BROKER, IRREVERSIBLE, READ, SECURITY
from kdissect.protocol.schema.registry import APIS
from kdissect.replay.disposition import Disposition
from kdissect.replay.load.analysis import load
from kdissect.replay.load.captured_cluster import CapturedCluster
from kdissect.replay.load.policy import is_internal, refusal_by_content, refusal_by_key
from kdissect.replay.safety import (
    AbortRun,
    Admission,
    captured_hosts,
    check_cluster,
)
from kdissect.replay.settings import Credentials, Groups, Tls
from tests.helpers.paper_target import FOUND_NOTHING, Script, replay, settings

EVERYTHING = settings(groups=Groups.FULL, allowed_apis=frozenset(APIS))


@pytest.mark.parametrize("key", sorted(INTER_BROKER | SECURITY | IRREVERSIBLE))
def test_no_flag_allows_what_is_never_sent(key: int) -> None:
    refusal = refusal_by_key(key, EVERYTHING)
    assert refusal is not None
    assert refusal.bucket is (Disposition.INTER_BROKER if key in INTER_BROKER else Disposition.POLICY)


@pytest.mark.parametrize("key", sorted(ADMIN))
def test_what_changes_the_cluster_is_allowed_one_by_one(key: int) -> None:
    assert refusal_by_key(key, settings()) is not None
    assert refusal_by_key(key, settings(allowed_apis=frozenset(ADMIN - {key}))) is not None
    assert refusal_by_key(key, settings(allowed_apis=frozenset({key}))) is None


@pytest.mark.parametrize(
    ("api", "why"),
    [
        ("LeaderAndIsr", "LeaderAndIsr is never sent"),
        ("CreateAcls", "CreateAcls is never sent"),
        ("Produce", "Produce needs no --allow"),
    ],
)
def test_only_what_changes_the_cluster_can_be_allowed(api: str, why: str) -> None:
    with pytest.raises(ArgumentTypeError, match=why):
        allowed_api(api)
    assert allowed_api("DeleteTopics").key == 20


def test_every_api_has_a_class_and_unknown_ones_are_never_sent() -> None:
    sent = {key for key in APIS if refusal_by_key(key, EVERYTHING) is None}
    assert sent >= READ | ADMIN
    assert not sent & (INTER_BROKER | SECURITY | IRREVERSIBLE | {17, 18, 36, 71, 72})
    for key in (-1, 93, 1000):
        assert refusal_by_key(key, EVERYTHING) is not None


def test_groups_are_off_unless_asked_for() -> None:
    members = {11, 12, 13, 14, 68, 76, 78, 79}
    for mode, allowed in ((Groups.OFF, set()), (Groups.SIMPLE, {8}), (Groups.FULL, {8, *members})):
        assert {key for key in (8, *members) if refusal_by_key(key, settings(groups=mode)) is None} == allowed
    streams = refusal_by_key(88, settings(groups=Groups.FULL))
    assert streams is not None
    assert streams.reason.startswith("streams groups are not replayed")


def test_followers_and_brokers_are_told_by_what_they_say() -> None:
    for key, version, body in (
        (1, 11, {"replica_id": 2}),
        (1, 15, {"replica_state": {"replica_id": 0, "replica_epoch": 1}}),
        (2, 5, {"replica_id": 1}),
        (23, 4, {"replica_id": 1}),
        (23, 1, {}),  # before consumers asked
        (24, 4, {}),
    ):
        refusal = refusal_by_content(key, version, body, "broker-2")
        assert refusal is not None
        assert refusal.bucket is Disposition.INTER_BROKER
    assert refusal_by_content(1, 11, {"replica_id": -1}, "c") is None
    assert refusal_by_content(0, 9, {}, "__admin_client") is not None


def test_internal_topics() -> None:
    assert all(
        is_internal(name)
        for name in ("__consumer_offsets", "__transaction_state", "_schemas", "connect-offsets")
    )
    assert not any(is_internal(name) for name in ("orders", "_orders", "connections", None))


def source(*addresses: tuple[str, int], ids: tuple[str, ...] = ("src",)) -> CapturedCluster:
    return CapturedCluster(set(ids), set(addresses))


OWN = ip_address("10.5.5.5")
HOME = ip_address("127.0.0.1")
NAMES = {"prod-1.example": [ip_address("10.0.0.1"), ip_address("fd00::1")]}


def rules(captured: tuple[str, int] | None = None, target: str = "b.test", **how: Any) -> Admission:
    """Return the rules of a run whose capture shows one broker."""
    shown = source(captured) if captured else source()
    return Admission(settings(target=((target, 9092),), **how), shown, NAMES, lambda address: address == OWN)


def test_the_captured_brokers_are_refused_even_if_allowed() -> None:
    admission = rules(("10.0.0.1", 9092), allowed_hosts=("10.0.0.0/8",))
    admission.admit(("10.0.0.1", 9093))
    admission.admit(("b.test", 9999))
    with pytest.raises(AbortRun, match="captured cluster"):
        admission.admit(("10.0.0.1", 9092))


@pytest.mark.parametrize(
    ("captured", "spelled"),
    [
        ("127.0.0.1", "::ffff:127.0.0.1"),
        ("127.0.0.1", "127.0.0.2"),
        ("127.0.0.1", "localhost"),
        ("127.0.0.1", "LocalHost."),
        ("127.0.0.1", "::1"),
        ("127.0.0.1", "0.0.0.0"),
        ("127.0.0.1", "10.5.5.5"),
        ("localhost", "127.3.2.1"),
        ("10.5.5.5", "127.0.0.1"),
        ("10.0.0.1", "::ffff:10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("10.0.0.1", "64:ff9b::10.0.0.1"),
        ("prod-1.example", "PROD-1.example."),
        ("prod-1.example", "10.0.0.1"),
        ("prod-1.example", "fd00:0::1"),
    ],
)
def test_a_captured_broker_is_refused_however_it_is_spelled(captured: str, spelled: str) -> None:
    """The attacker is a target whose metadata names production, or a slip of the operator."""
    for admission in (
        rules((captured, 9092), target=spelled),
        rules((captured, 9092), allowed_hosts=(spelled,)),
    ):
        with pytest.raises(AbortRun, match="captured cluster"):
            admission.admit((spelled, 9092))
        admission.admit((spelled, 9093))


def test_a_name_is_refused_if_any_of_its_addresses_is_a_captured_broker() -> None:
    admission = rules(("10.0.0.1", 9092))
    admission.admit(("b.test", 9092))
    admission.admit_resolved(("b.test", 9092), [ip_address("10.9.9.9")])
    with pytest.raises(AbortRun, match=r"b\.test:9092 \(10\.0\.0\.1\) is a broker of the captured cluster"):
        admission.admit_resolved(("b.test", 9092), [ip_address("10.9.9.9"), ip_address("10.0.0.1")])


def test_where_a_connection_led_is_checked_against_both_lists() -> None:
    admission = rules(("10.0.0.1", 9092), allowed_hosts=("10.7.0.0/16",))
    admission.admit_resolved(("b.test", 9092), [ip_address("10.9.9.9")])
    admission.admit_peer(("b.test", 9092), ip_address("10.9.9.9"))
    admission.admit_peer(("b.test", 9092), ip_address("10.7.1.1"))
    with pytest.raises(AbortRun, match="captured cluster"):
        admission.admit_peer(("b.test", 9092), ip_address("10.0.0.1"))
    with pytest.raises(AbortRun, match=r"led to 10\.8\.8\.8, which is not allowed"):
        admission.admit_peer(("b.test", 9092), ip_address("10.8.8.8"))


def test_addresses_that_metadata_names_need_permission() -> None:
    for host in ("production.test", "10.1.2.3", "127.0.0.1"):
        with pytest.raises(AbortRun, match="--allow-host"):
            rules().admit((host, 9092))
    rules(allowed_hosts=("10.1.0.0/16",)).admit(("10.1.2.3", 1))
    rules(allowed_hosts=("10.1.0.0/16",)).admit(("::ffff:10.1.2.3", 1))
    rules(target="127.0.0.1").admit(("127.0.1.1", 1))
    known = rules()
    known.admit_resolved(("b.test", 9092), [ip_address("10.9.9.9")])
    known.admit(("10.9.9.9", 9093))  # the target names itself by its address


@pytest.mark.parametrize(
    ("peer", "how", "refused"),
    [
        ("10.9.9.9", {}, True),
        ("127.0.0.1", {}, False),
        ("10.9.9.9", {"tls": Tls()}, False),
        ("10.9.9.9", {"plaintext_credentials": True}, False),
        ("10.9.9.9", {"credentials": None}, False),
    ],
)
def test_credentials_leave_the_machine_over_tls_only(peer: str, how: dict[str, Any], refused: bool) -> None:
    """The attacker listens on the network between the replayer and its target."""
    admission = rules(**{"credentials": Credentials("PLAIN", "me", "secret"), **how})
    address = ("b.test", 9092)
    admission.admit_resolved(address, [ip_address(peer)])
    if not refused:
        return admission.admit_peer(address, ip_address(peer))
    with pytest.raises(AbortRun, match="unencrypted: use --tls") as failed:
        admission.admit_peer(address, ip_address(peer))
    assert "secret" not in str(failed.value)
    return None


def test_a_capture_that_names_too_many_brokers_is_refused() -> None:
    assert captured_hosts(source(("prod.example", 9092), ("10.0.0.1", 9092))) == {"prod.example"}
    with pytest.raises(AbortRun, match="1,001 brokers by name"):
        captured_hosts(source(*((f"b{number}", 9092) for number in range(1001))))


def test_the_captured_cluster_is_refused() -> None:
    with pytest.raises(AbortRun, match="itself"):
        check_cluster(settings(), source(), "src")
    check_cluster(settings(), source(), "other")
    with pytest.raises(AbortRun, match="--i-know-target other"):
        check_cluster(settings(), source(ids=()), "other")
    check_cluster(settings(known_target="other"), source(ids=()), "other")
    with pytest.raises(AbortRun, match="not other"):
        check_cluster(settings(known_target="other"), source(ids=()), "third")


@pytest.mark.parametrize("command", ["plan", "prepare", "run", "compare"])
def test_every_command_can_be_quiet(command: str) -> None:
    more = ["a-run"] if command == "compare" else ["capture.pcap", "--target", "kafka.test:9092"]
    assert parse(["replay", command, *more, "--quiet"]).quiet
    assert parse(["replay", command, *more, "--format", "json"]).format == "json"


def test_metadata_never_creates_topics() -> None:
    script = Script()
    for version in (0, 1, 3, 4, 9):
        body = {"topics": [{"name": "orders"}]} | (
            {"allow_auto_topic_creation": True} if version >= 4 else {}
        )
        script.add(version, 3, version, body, FOUND_NOTHING)
    done = replay(script, lambda *_: FOUND_NOTHING)
    sent = done.sent(3)
    assert len(sent) == 5
    assert all(version >= 4 and body["allow_auto_topic_creation"] is False for _, version, body in sent)
    assert all(body["topics"][0]["name"] == "t-orders" for _, _, body in sent)


def test_nothing_of_a_captured_login_is_sent() -> None:
    script = Script()
    script.add(0, 17, 1, {"mechanism": "PLAIN"}, {"error_code": 0, "mechanisms": ["PLAIN"]})
    script.add(
        1, 36, 1, {"auth_bytes": b"\0alice\0production password"}, {"error_code": 0, "auth_bytes": b""}
    )
    script.add(2, 10, 1, {"key": "g", "key_type": 0}, None)
    loaded = load(script.capture(), script.shelf, settings())
    assert [item.refusal is None for item in loaded.items] == [False, False, True]
    done = replay(script, lambda *_: {"error_code": 0, "node_id": 1, "host": "127.0.0.1", "port": 9092})
    assert {key for _, key, _, _ in done.target.asked} == {18, 10}
    assert all(b"production password" not in repr(body).encode() for *_, body in done.target.asked)


def test_topic_ids_are_named_as_kafka_writes_them() -> None:
    assert topic_id("bm5ubm5ubm5ubm5ubm5ubg=orders") == (b"n" * 16, "orders")
    for text in (
        "bm5ubm5ubm5ubm5ubm5ubg",
        "orders=bm5ubm5ubm5ubm5ubm5ubg",
        "=orders",
        "bm5ubm5ubm5ubm5ubm5ubh=orders",
    ):
        with pytest.raises(ArgumentTypeError):
            topic_id(text)
