"""Watches of rings: by an engine of this process until nothing comes, or by a command that is killed.

A command takes seconds to start Spark. So tests kill one command, and go on in this process. KDISSECT_KILLS
says how many are killed (1 unless said), KDISSECT_KILLS_SEED when.
"""

import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from kdissect.cli.watch_places import opened_store
from kdissect.spark.session import Engine
from kdissect.spark.watch.batch_job import BatchReport
from kdissect.spark.watch.batch_store import BatchStore
from kdissect.spark.watch.watch_query import WatchQuery
from kdissect.spark.watch.watch_settings import WatchSettings
from kdissect.spark.watch.watched_directory import WatchedDirectory
from tests.helpers.command import COMMAND, environment

KILLS = int(os.environ.get("KDISSECT_KILLS", "1"))
SEED = int(os.environ.get("KDISSECT_KILLS_SEED", "0"))
WHEN = ("--every", "200ms", "--master", "local[2]", "--format", "jsonl", "--quiet")

Observer = Callable[[BatchReport], None]


def watch_until_idle(
    engine: Engine,
    ring: str | Path,
    out: str | Path,
    scratch: Path,
    observer: Callable[[BatchStore], Observer] = lambda _store: lambda _report: None,
    **settings: object,
) -> list[BatchReport]:
    """Watch a ring as the command does; return the reports of all batches.

    `observer` gets the open store, and returns what is called after each batch. A copy of a checkpoint at a
    URI lies in `scratch`.
    """
    given = WatchSettings(
        WatchedDirectory(str(ring)),
        **{"every_s": 0.1, "settle_s": 0, "until_idle_s": 1, **settings},  # type: ignore[arg-type]
    )
    reports: list[BatchReport] = []
    with opened_store(None, str(out), given.source, given.about(), scratch) as store:
        seen = observer(store)

        def on_batch(report: BatchReport) -> None:
            reports.append(report)
            seen(report)

        WatchQuery(engine, given, store, on_batch).run()
    return reports


def start_watch(ring: str | Path, out: str | Path, *options: str) -> "subprocess.Popen[bytes]":
    """Start the command."""
    return subprocess.Popen(
        [*COMMAND, "watch", str(ring), "--out", str(out), *WHEN, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        start_new_session=True,
    )


def kill_at_work(
    run: "subprocess.Popen[bytes]", chance: random.Random, meanwhile: Callable[[], bool] = lambda: False
) -> None:
    """Kill a watch at some moment after its first batch.

    `meanwhile` is called until then, or until it returns False.
    """
    assert run.stdout is not None
    first = run.stdout.readline()
    until = time.monotonic() + chance.random() * 1.5
    while time.monotonic() < until and meanwhile():
        time.sleep(0.02)
    time.sleep(max(until - time.monotonic(), 0))
    with suppress(ProcessLookupError):
        os.killpg(run.pid, signal.SIGKILL)
    _, errors = run.communicate()
    assert json.loads(first)["event"] == "interval", errors
