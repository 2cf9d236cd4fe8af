"""`replay.load.known_requests`: shapes tell what a look at every request finds out."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from kdissect.replay.load.analysis import load
from kdissect.replay.load.decoded_cache import CapturedMessages
from kdissect.replay.load.log_requests import read_log
from kdissect.replay.load.replay_input import ReplayInput
from kdissect.replay.load.requests import read
from kdissect.replay.load.spool import Spool, SpoolSlot
from kdissect.replay.settings import Groups, ReplaySettings
from tests.helpers.recorded import CAPTURES
from tests.helpers.replay_logs import make_log

RECORDED = ("broker-restart.pcapng", "cluster-life.pcapng", "pause.pcapng", "transactions.pcapng")
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
            partition: (list(each.offsets), list(each.requests))
            for partition, each in loaded.reads._writers.items()
        },
        "last writers": loaded.last_writers._writers,
        "order": (loaded.group_order.ended, loaded.group_order.sent),
        "ties": dict(loaded.connection_groups.ties()),
        "groups": {frozenset(group) for group in groups},
    }


@pytest.mark.parametrize("name", RECORDED)
def test_shapes_tell_what_a_look_finds_out(name: str, tmp_path: Path) -> None:
    direct, logged, path = Spool(), Spool(), str(CAPTURES / name)
    make_log([path], tmp_path / "log", partitions=2)
    for groups in (Groups.FULL, Groups.SIMPLE):
        settings = ReplaySettings(target=(), groups=groups)
        expected = load(read([path], (), str(tmp_path), direct), direct, settings)
        found = load(read_log(tmp_path / "log", logged), logged, settings)
        one, other = learnt(expected, direct), learnt(found, logged)
        for key, value in one.items():
            assert other[key] == value, key
