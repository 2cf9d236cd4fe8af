"""`replay.load.known_requests`: shapes tell what a look at every request finds out."""

from __future__ import annotations

import dataclasses
import shutil
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from kdissect.exchanges.filter import ExchangeFilter
from kdissect.protocol.api_keys import ApiKey
from kdissect.replay import plan_totals
from kdissect.replay.engine.run import Replay
from kdissect.replay.load import known_requests, log_requests, logged_shapes, replay_items, telling_produces
from kdissect.replay.load.analysis import load
from kdissect.replay.load.decoded_cache import CapturedMessages
from kdissect.replay.load.log_requests import read_log
from kdissect.replay.load.replay_input import ReplayInput
from kdissect.replay.load.request_table import ROWS_AT_ONCE
from kdissect.replay.load.requests import read
from kdissect.replay.load.spool import Spool, SpoolSlot
from kdissect.replay.plan import make_plan
from kdissect.replay.settings import DRY_CLUSTER, DRY_TARGET, Groups, ReplaySettings, everything
from tests.bench.synthesis import synthesise
from tests.helpers.recorded import CAPTURES
from tests.helpers.replay_logs import make_log
from tests.helpers.tiers import thorough_after

RECORDED = (
    "broker-restart.pcapng",
    "cluster-life.pcapng",
    "pause.pcapng",
    "transactions.pcapng",
    "habits.pcapng",
    "rebalances.pcapng",
)
COMPARED = (
    "source",
    "starts",
    "records",
    "record_bytes",
    "caps",
    "issuers",
    "after",
    "transactions",
    "retries",
    "repeats",
    "sessions",
    "older_sessions",
    "prior_members",
    "assignments",
)
NOWHERE = SpoolSlot(0, 0)


def learnt(loaded: ReplayInput, spool: Spool) -> dict[str, Any]:
    """Return all that a load has found out."""
    captured = CapturedMessages(loaded.bodies, spool.get)
    items = list(loaded.items)
    connections = list(dict.fromkeys(item.request.connection for item in items))
    groups = loaded.connection_groups.groups(connections)
    return {name: getattr(loaded, name) for name in COMPARED} | {
        "bodies": [captured.request(item.request) for item in items],
        "items": [
            dataclasses.replace(item, request=dataclasses.replace(item.request, frame=NOWHERE, response=None))
            for item in items
        ],
        "reads": [loaded.reads.reads(index) for index in range(len(items))],
        "before": {index: sorted(each) for index, each in loaded.reads.before.items()},
        "writers": {
            written: (list(each.offsets), list(each.requests))
            for written, each in loaded.reads._writers.items()
        },
        "last writers": loaded.last_writers._writers,
        "order": (loaded.group_order.ended, loaded.group_order.sent),
        "ties": dict(loaded.connection_groups.ties()),
        "groups": {frozenset(group) for group in groups},
    }


def check_alike(path: str, folder: Path, wanted: Callable[[int], ExchangeFilter] = everything) -> None:
    """Fail unless a log of a capture tells what the capture tells."""
    direct, logged = Spool(), Spool()
    make_log([path], folder / "log", partitions=2)
    for groups in (Groups.FULL, Groups.SIMPLE):
        settings = ReplaySettings(target=(), groups=groups, filter=wanted)
        expected = load(read([path], (), str(folder), direct, None, wanted), direct, settings)
        found = load(read_log(folder / "log", logged, wanted), logged, settings)
        one, other = learnt(expected, direct), learnt(found, logged)
        for key, value in one.items():
            assert other[key] == value, key


def planned(path: str, groups: Groups) -> dict[str, Any]:
    """Return the plan for a target in memory."""
    asked = ReplaySettings(target=(DRY_TARGET,), known_target=DRY_CLUSTER, dry_partitions=1, groups=groups)
    with closing(Replay(asked, [path])) as replay:
        replay.learn()
        return make_plan(replay)


@pytest.mark.parametrize("name", thorough_after(2, RECORDED))
def test_shapes_tell_what_a_look_finds_out(name: str, tmp_path: Path) -> None:
    check_alike(str(CAPTURES / name), tmp_path)


FILTERS: dict[str, Callable[[int], ExchangeFilter]] = {
    "later": lambda start_ns: ExchangeFilter(since_ns=start_ns + 5 * 10**9),
    "apis": lambda _start_ns: ExchangeFilter(apis=frozenset({ApiKey.PRODUCE, ApiKey.JOIN_GROUP})),
    "topic": lambda _start_ns: ExchangeFilter(topics=("orders*", "transfers")),
    "some": lambda start_ns: ExchangeFilter(clients=("*1*",), until_ns=start_ns + 12 * 10**9),
}


@pytest.mark.parametrize("wanted", FILTERS.values(), ids=FILTERS)
@pytest.mark.parametrize(
    "name", thorough_after(1, ("transactions.pcapng", "rebalances.pcapng", "habits.pcapng"))
)
def test_shapes_tell_as_much_of_what_filters_select(
    name: str, wanted: Callable[[int], ExchangeFilter], tmp_path: Path
) -> None:
    check_alike(str(CAPTURES / name), tmp_path, wanted)


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("editcap"), reason="editcap (Wireshark) is not installed")
@pytest.mark.parametrize("name", thorough_after(0, ["transactions", "rebalances"]))
def test_shapes_tell_as_much_of_repeated_traffic(name: str, tmp_path: Path) -> None:
    source, repeated = tmp_path / "source.pcap", tmp_path / "repeated.pcap"
    convert = ["editcap", "--discard-all-secrets", "-F", "pcap", str(CAPTURES / f"{name}.pcapng")]
    subprocess.run([*convert, str(source)], check=True)
    synthesise("again", source, repeated, source.stat().st_size * 3 // 2, 0, 0)  # two copies
    check_alike(str(repeated), tmp_path)
    assert planned(str(tmp_path / "log"), Groups.FULL) == planned(str(repeated), Groups.FULL)


@pytest.mark.parametrize("name", thorough_after(1, ("transactions.pcapng", "rebalances.pcapng")))
def test_shapes_tell_the_same_block_by_block(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (known_requests, log_requests, logged_shapes, replay_items, telling_produces):
        monkeypatch.setattr(module, "ROWS_AT_ONCE", 200)
    check_alike(str(CAPTURES / name), tmp_path)
    plans = []
    for size in (ROWS_AT_ONCE, 200):
        monkeypatch.setattr(known_requests, "ROWS_AT_ONCE", size)
        monkeypatch.setattr(replay_items, "ROWS_AT_ONCE", size)
        monkeypatch.setattr(plan_totals, "ROWS_AT_ONCE", size)
        plans.append(planned(str(CAPTURES / name), Groups.FULL))
    assert plans[0] == plans[1]
