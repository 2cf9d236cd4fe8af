"""Failures on a real broker when a rewrite is left out: the reason for each rewrite.

The other half, that nothing of this happens with it, is asserted on the same captures by `test_end_to_end`
(FAILURES).
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from kdissect.exchanges.filter import ExchangeFilter
from kdissect.protocol.api_keys import ApiKey
from kdissect.replay.engine.fast_path import prepared_requests
from kdissect.replay.handlers import HANDLERS, produce, produce_batches, transactions
from kdissect.replay.handlers.sending import default_handler
from kdissect.replay.rewrite import batch_rewrite, roles
from kdissect.replay.rewrite.names import Names
from kdissect.replay.settings import Groups, Timestamps
from kdissect.replay.target.producers import ProducerIdentity, Producers
from tests.helpers.tiers import thorough_after
from tests.lab import broker_requests as wire
from tests.replay.conftest import SecuredCluster
from tests.replay.play import Played, play, settings
from tests.replay.reading import read_all

pytestmark = pytest.mark.broker

PRODUCE, FETCH, INIT, ADD_PARTITIONS, JOIN, HEARTBEAT, SYNC = 0, 1, 22, 24, 11, 12, 14


def _copy_checksums(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(batch_rewrite, "patched_crc32c", lambda checksum, *_: checksum)


def _copy_sessions(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(HANDLERS, ApiKey.FETCH, default_handler)


def _copy_topic_ids(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Names, "topic_id", lambda _names, captured: captured)


def _copy_epochs(patch: pytest.MonkeyPatch) -> None:
    for role in ("current_leader_epoch", "leader_epoch"):
        patch.delitem(roles.NEUTRAL, role)


def _copy_members(patch: pytest.MonkeyPatch) -> None:
    for key in (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT):
        patch.setitem(HANDLERS, key, default_handler)


def _copy_identities(patch: pytest.MonkeyPatch) -> None:
    def captured(
        _context: Any, _item: Any, body: dict[str, Any], front: str = ""
    ) -> Generator[Any, Any, ProducerIdentity]:
        yield from ()
        return ProducerIdentity(body[f"{front}producer_id"], body[f"{front}producer_epoch"])

    patch.setattr(transactions, "_put_identity", captured)


def _copy_sequences(patch: pytest.MonkeyPatch) -> None:
    def as_of_nobody(data: bytes) -> list[batch_rewrite.CapturedBatch]:
        return [batch._replace(producer_id=-1) for batch in batch_rewrite.batches_of(data)]

    def with_captured(batch: batch_rewrite.CapturedBatch, *_others: int) -> bytes:
        own = batch_rewrite.batch_of(batch.data)
        return batch_rewrite.rewritten(own, own.producer_id, own.producer_epoch, own.base_sequence)

    patch.setattr(produce, "batches_of", as_of_nobody)
    patch.setattr(produce_batches, "rewritten", with_captured)


def _send_retries(patch: pytest.MonkeyPatch) -> None:
    def all_of_them(_context: Any, _item: Any, _where: Any, batches: Any, _repeats: Any) -> Iterator[Any]:
        yield from ()
        return batches

    patch.setattr(Producers, "took", lambda *_: False)
    patch.setattr(produce, "_without_taken", all_of_them)


WITHOUT: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "checksums": _copy_checksums,
    "fetch_sessions": _copy_sessions,
    "topic_ids": _copy_topic_ids,
    "epochs": _copy_epochs,
    "members": _copy_members,
    "identities": _copy_identities,
    "sequences": _copy_sequences,
    "retries": _send_retries,
}


def without(
    target: SecuredCluster,
    folder: Path,
    capture: str,
    kinds: str,
    apis: tuple[int, ...],
    name: str = "",
    **more: object,
) -> Played:
    """Replay a part of a capture, some kinds of rewriting left out."""
    off = kinds.split()
    if "checksums" in off:  # a producer id may by chance be the captured one; the time is another
        more["timestamps"] = Timestamps.NOW
    asked = settings(
        target,
        f"off-{name or '-'.join(sorted(off))}-",
        filter=lambda _start_ns: ExchangeFilter(apis=frozenset(apis)),
        answer_deadline_s=20.0,
        **more,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prepared_requests, "can_be_prepared", lambda *_: False)
        for kind in off:
            WITHOUT[kind](patch)
        roles.rewriter.cache_clear()
        played = play(asked, capture, folder / (name or "run"))
    roles.rewriter.cache_clear()
    return played


def spend_producer_id(target: SecuredCluster, producer_id: int) -> None:
    """Have the brokers hand out producer ids until this one is spent."""
    asked = struct.pack(">hhih3shi", INIT, 0, 5, 3, b"lab", -1, 60_000)
    for port in target.client_ports:
        given, patience = -1, time.monotonic() + 60
        while given < producer_id:  # it has to have a block of ids first
            assert time.monotonic() < patience
            error, given = struct.unpack_from(">4x4xhq", wire.ask(port, asked, 20.0))
            assert given >= 0 or error


@pytest.mark.parametrize(
    ("kinds", "capture", "apis", "api", "error"),
    thorough_after(
        3,
        [
            ("checksums", "steady.pcapng", (PRODUCE, INIT), "Produce", "CORRUPT_MESSAGE"),
            ("fetch_sessions", "steady.pcapng", (FETCH,), "Fetch", "FETCH_SESSION_ID_NOT_FOUND"),
            ("fetch_sessions topic_ids", "steady.pcapng", (FETCH,), "Fetch", "UNKNOWN_TOPIC_ID"),
            ("fetch_sessions epochs", "broker-restart.pcapng", (FETCH,), "Fetch", "UNKNOWN_LEADER_EPOCH"),
            (
                "identities",
                "transactions.pcapng",
                (ADD_PARTITIONS,),
                "AddPartitionsToTxn",
                "INVALID_PRODUCER_ID_MAPPING",
            ),
        ],
    ),
)
def test_without_it_the_target_says_an_error(
    target: SecuredCluster,
    tmp_path: Path,
    kinds: str,
    capture: str,
    apis: tuple[int, ...],
    api: str,
    error: str,
) -> None:
    played = without(target, tmp_path, capture, kinds, apis)
    found = {(each["api"], each["replayed"]) for each in played.report["errors"] if each["kind"] != "same"}
    assert (api, error) in found


def test_copied_members_are_strangers(target: SecuredCluster, tmp_path: Path) -> None:
    played = without(
        target, tmp_path, "steady.pcapng", "members", (JOIN, SYNC, HEARTBEAT), groups=Groups.FULL
    )
    found = {(each["api"], each["replayed"]) for each in played.report["errors"] if each["kind"] == "new"}
    assert {("SyncGroup", "UNKNOWN_MEMBER_ID"), ("Heartbeat", "UNKNOWN_MEMBER_ID")} & found


@pytest.mark.thorough
def test_a_second_run_under_the_same_producer_ids_writes_nothing_and_says_success(
    target: SecuredCluster, tmp_path: Path
) -> None:
    kinds = "sequences"
    only = ("steady.pcapng", kinds, (PRODUCE,), "again")
    topic = "off-again-payments"
    without(target, tmp_path / "1", *only)
    first = len(read_all(target.bootstrap, [topic])[topic])
    second = without(target, tmp_path / "2", *only)
    grown = len(read_all(target.bootstrap, [topic])[topic]) - first
    assert first == 240
    # The last five batches of each partition were taken for duplicates, the others for gaps.
    assert grown < 240
    spend_producer_id(target, 0)  # the captured one: its next owner would be taken for who wrote here already
    control = without(target, tmp_path / "3", "steady.pcapng", "", (PRODUCE,), "again")
    assert control.unexpected() == []
    assert len(read_all(target.bootstrap, [topic])[topic]) == first + grown + 240
    assert second.report["verdict"] == "diverged"


@pytest.mark.thorough
def test_a_retry_that_is_not_recognised_is_written_twice(target: SecuredCluster, tmp_path: Path) -> None:
    without(target, tmp_path, "broker-restart.pcapng", "retries", (PRODUCE, INIT), "retries")
    found = read_all(target.bootstrap, ["off-retries-orders"])["off-retries-orders"]
    assert len(found) > 1280
    assert len({(each.partition, each.key) for each in found}) == 1280
