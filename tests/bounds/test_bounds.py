"""Hostile bytes cost seconds and bounded memory, are a fault or a count, and leave good traffic alone."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.bounds.hazards import CONNECTIONS, CROWDS, GOOD, HAZARDS
from tests.helpers.command import environment
from tests.helpers.tiers import spread

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]  # all of them run before the first is judged

SECONDS = 60  # of processor time for each step, on a slow machine: they take a tenth of that
NAMES = [*spread(HAZARDS, 6), *spread(CROWDS, 1)]
MIB = {
    "true counts": 1500,
    "rows of many": 300,
    "half a million SYNs": 1500,
    "100,000 connections": 800,
}  # beyond what lay there before
USUAL_MIB = 400
MOST_CONNECTIONS = 110_000  # of half a million attempts: 50,000 of each 32 MiB of the capture

FOUND: dict[str, tuple[dict[str, Any], str]] = {
    # what the analysis counts, and a word of its faults
    "gzip bomb": ({"others": GOOD + 2}, "become more than 67,108,864 bytes at byte 0"),
    "snappy bomb": ({"others": GOOD + 2}, "become more than 67,108,864 bytes at byte 0"),
    "lz4 bomb": ({"others": GOOD + 2}, "become more than 67,108,864 bytes at byte 0"),
    "zstd bomb": (
        {"others": GOOD + 1},
        "",
    ),  # there are no wrapped messages of zstd: only a dump decompresses it
    "nested sets": ({"others": GOOD + 1}, "compressed messages cannot be read"),
    "huge frames": ({"others": 2 * GOOD, "oversized_frames": 2, "skipped_bytes": 25}, ""),
    "huge counts": ({"others": GOOD + 3}, "count does not fit the bytes left"),
    "true counts": ({"others": GOOD + 2}, "more topics and partitions than are kept of one message"),
    "long names": ({"others": GOOD + 1}, "more topics and partitions than are kept of one message"),
    "rows of many": ({"others": GOOD + 200}, ""),
    "behind a hole": ({"others": 2 * GOOD, "overfull_holes": 1}, ""),
    "half a million SYNs": ({}, ""),
    "100,000 connections": ({"others": CONNECTIONS, "connections": CONNECTIONS + 2}, ""),
}
DUMP_FAULTS = {
    "gzip bomb": 2,
    "snappy bomb": 2,
    "lz4 bomb": 2,
    "zstd bomb": 1,
    "nested sets": 1,
    "huge counts": 3,
    "true counts": 1,
}


@pytest.fixture(scope="module")
def outcomes() -> dict[str, dict[str, Any]]:
    """Everything, in a process whose memory is its own."""
    path = os.pathsep.join([environment()["PYTHONPATH"], str(Path(__file__).parents[2])])
    command = [sys.executable, "-P", "-m", "tests.bounds", *NAMES]
    done = subprocess.run(
        command, env=environment(PYTHONPATH=path), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return {said["name"]: said for said in map(json.loads, done.stdout.splitlines())}


@pytest.mark.parametrize("name", NAMES)
def test_what_asks_for_too_much(name: str, outcomes: dict[str, dict[str, Any]]) -> None:
    analysed, dumped = outcomes[name]["analysed"], outcomes[name]["dumped"]
    expected, words = FOUND[name]
    assert {key: analysed[key] for key in ("good", *expected)} == {"good": 2 * GOOD, **expected}
    assert analysed["connections"] <= MOST_CONNECTIONS
    assert words in " ".join(analysed["faults"])
    assert bool(words) == bool(analysed["faults"])
    assert (dumped["good"], dumped["exit"]) == (2 * GOOD, 0)
    assert dumped.get("faults", 0) == DUMP_FAULTS.get(name, 0)
    for step in (analysed, dumped):
        assert step["seconds"] < SECONDS
        assert step["MiB"] < MIB.get(name, USUAL_MIB)
