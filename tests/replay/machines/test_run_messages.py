"""`replay.machines.run_messages`: what driver and workers tell each other."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

from kdissect.replay.load.log_files import LogFacts, write_facts
from kdissect.replay.machines.clock_offset import ClockOffset
from kdissect.replay.machines.run_messages import Orders, ReadyFacts, log_digest, worker_folder, worker_name
from kdissect.replay.settings import Credentials
from tests.helpers.paper_target import settings


def test_facts_survive_their_way() -> None:
    facts = ReadyFacts(lead_ns=5, offset_ns=-3, error_ns=2, wall_offset_ns=7)
    assert ReadyFacts.of(json.loads(json.dumps(facts.values()))) == facts
    assert facts.clock == ClockOffset(-3, 2)
    orders = Orders("log", "digest", settings(credentials=Credentials("PLAIN", "me", "secret")), "id")
    assert pickle.loads(pickle.dumps(orders)) == orders
    assert "secret" not in repr(orders)


def test_logs_are_told_apart(tmp_path: Path) -> None:
    for name, earliest in (("a", 1), ("b", 2), ("c", 1)):
        (tmp_path / name).mkdir()
        write_facts(tmp_path / name, LogFacts([], earliest, 3))
    first, second, third = (log_digest(tmp_path / name) for name in "abc")
    assert first == third != second
    assert worker_folder(3) == "worker-3"
    assert worker_name(3, "here") == "worker 3 on here"
