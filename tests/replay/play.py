"""Replays for tests, from the capture to the comparison."""

from __future__ import annotations

import dataclasses
import struct
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

from kdissect.replay.create_topics import create_topics, missing_topics
from kdissect.replay.engine.run import Replay
from kdissect.replay.plan import make_plan
from kdissect.replay.results.run_comparison import compare
from kdissect.replay.results.run_files import read_run, save_passes
from kdissect.replay.settings import Pace, ReplaySettings
from tests.helpers.conversations import CAPTURES
from tests.lab.cluster import Cluster

PACKET_BLOCK = 6


@dataclasses.dataclass
class Played:
    """A run: its comparison, its files, and what it knew in the end."""

    report: dict[str, Any]
    folder: Path
    pairs: list[dict[str, Any]]
    plan: dict[str, Any]
    counts: Counter[str]

    @property
    def buckets(self) -> dict[str, int]:
        return {
            bucket: count
            for part in ("sent_as", "skipped_as")
            for bucket, count in self.report["accounting"][part].items()
            if count
        }

    def unexpected(self) -> list[tuple[str, str, str, int]]:
        """Return the errors that the capture did not have and that another cluster need not have."""
        return [
            (each["api"], each["captured"], each["replayed"], each["requests"])
            for each in self.report["errors"]
            if each["kind"] in ("new", "mutated") and not each["expected"]
        ]


def settings(cluster: Cluster, prefix: str, **more: Any) -> ReplaySettings:
    """Return settings that replay as fast as order allows, with names of their own."""
    first = cluster.client_ports[0]
    return ReplaySettings(
        target=(("127.0.0.1", first),), **{"pace": Pace.ASAP, "prefix": prefix, "run": prefix, **more}
    )


def play(asked: ReplaySettings, capture: str, folder: Path) -> Played:
    """Create topics, replay, write, read, compare."""
    with closing(Replay(asked, [str(CAPTURES / capture)])) as replay:
        replay.learn()
        wanted = missing_topics(replay)
        if wanted:
            made = replay.run_alone(create_topics(replay.context(), wanted))
            assert all(each.outcome == "created" for each in made), made
            replay.learn()  # as `run` does after `prepare`
        plan = make_plan(replay)
        replay.play()
        place = save_passes(replay, folder, plan)[0]
        counts = replay.passes[0].outcome.counts
    summary, pairs = read_run(place)
    found = list(pairs)
    return Played(compare(summary, found), place, found, plan, counts)


def beginning_late(capture: str, packets: int, folder: Path) -> str:
    """Leave out the first packets of a pcapng capture; give where the rest is."""
    data, kept, at = (CAPTURES / capture).read_bytes(), [], 0
    while at < len(data):
        kind, size = struct.unpack_from("=II", data, at)
        packets -= kind == PACKET_BLOCK
        if kind != PACKET_BLOCK or packets < 0:
            kept.append(data[at : at + size])
        at += size
    rest = folder / f"late-{capture}"
    rest.write_bytes(b"".join(kept))
    return str(rest)
