"""Watched captures give the rows of one dissection of all files, whatever happens meanwhile.

KDISSECT_KILLS says how often the run is killed (twice unless said), KDISSECT_KILLS_SEED when.
"""

import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import pytest

from kdissect.capture.inputs import open_inputs
from kdissect.spark.session import Engine
from kdissect.spark.watch.batch_store import BatchStore
from kdissect.spark.watch.figure_reader import read_figures
from kdissect.spark.watch.watch_query import BatchReport, WatchQuery, WatchSettings
from kdissect.spark.watch.watched_directory import WatchedDirectory
from tests.helpers.command import COMMAND, environment
from tests.helpers.rings import (
    CAPTURES,
    as_pcap,
    assert_same,
    packets_of,
    ring_files,
    tables_at_once,
    tables_of_delta,
    tables_of_watch,
    write_ring,
)

KILLS = int(os.environ.get("KDISSECT_KILLS", "2"))
DELTA = ("--out-format", "delta")
SEED = int(os.environ.get("KDISSECT_KILLS_SEED", "0"))


def watched(
    engine: Engine, tmp_path: Path, after: Callable[[], None] = lambda: None, **settings: object
) -> list[BatchReport]:
    """Watch a ring until it is idle; return the reports of all batches. `after` is called after each."""
    reports: list[BatchReport] = []

    def on_batch(report: BatchReport) -> None:
        reports.append(report)
        after()

    given = WatchSettings(
        WatchedDirectory(str(tmp_path / "ring")),
        **{"every_s": 0.1, "settle_s": 0, "until_idle_s": 1, **settings},  # type: ignore[arg-type]
    )
    store = BatchStore(tmp_path / "checkpoint", tmp_path / "out", given.about())
    try:
        WatchQuery(engine, given, store, on_batch).run()
    finally:
        store.close()
    return reports


@pytest.mark.parametrize("most_files", [1, 3, 50])
def test_batches_of_any_size_give_the_same_rows(engine: Engine, tmp_path: Path, most_files: int) -> None:
    write_ring(tmp_path / "ring", ring_files(CAPTURES / "old-broker.pcap", 7))
    reports = watched(engine, tmp_path, most_files=most_files)
    sizes = [min(most_files, 7 - first) for first in range(0, 7, most_files)]
    assert [report.files for report in reports] == [*sizes, 0]
    assert_same(tables_of_watch(tmp_path / "out"), tables_at_once(tmp_path / "ring"))
    assert reports[-1].commit.finished
    assert not any(report.notices for report in reports)


def growing_ring(ring: Path, cuts: int, chance: random.Random) -> list[tuple[Path, bytes]]:
    """Return what is appended to which file of a ring: two files that follow each other, cut anywhere."""
    ring.mkdir()
    return [
        (ring / f"ring-{number}.pcap", data[start:stop])
        for number, data in enumerate(ring_files(CAPTURES / "old-broker.pcap", 2))
        for start, stop in pairwise([0, *sorted(chance.sample(range(64, len(data)), cuts)), len(data)])
    ]


def append_next(waiting: Iterator[tuple[Path, bytes]]) -> bool:
    """Append the next part; return whether there was one."""
    for path, data in islice(waiting, 1):
        with path.open("ab") as file:
            file.write(data)
        return True
    return False


def test_files_that_grow_give_the_same_rows(engine: Engine, tmp_path: Path) -> None:
    """After each batch a writer adds bytes, which end anywhere; two files follow each other."""
    chance = random.Random(SEED)
    parts = growing_ring(tmp_path / "ring", 3, chance)
    waiting = iter(parts)
    append_next(waiting)
    reports = watched(engine, tmp_path, after=lambda: append_next(waiting))
    assert_same(tables_of_watch(tmp_path / "out"), tables_at_once(tmp_path / "ring"))
    assert reports[-1].commit.files == 2
    assert len(reports) >= len(parts)
    # With a settle time of 0 half a packet is reported, and read when the rest has come.
    assert all("ends within a record" in notice for report in reports for notice in report.notices)


def test_holes_and_other_files_are_reported(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = write_ring(tmp_path / "ring", ring_files(CAPTURES / "old-broker.pcap", 4))
    (tmp_path / "ring" / "notes-0.txt").write_text("no capture")
    process = WatchQuery._process

    def overwrite_first(self: WatchQuery, files, is_last: bool = False) -> None:
        paths[1].write_bytes(paths[0].read_bytes())
        process(self, files, is_last)

    monkeypatch.setattr(WatchQuery, "_process", overwrite_first)
    reports = watched(engine, tmp_path, most_files=5)
    notices = [notice for report in reports for notice in report.notices]
    assert any(notice.startswith("skipped") and "notes-0.txt" in notice for notice in notices)
    assert any("ring-00001.pcap was overwritten" in notice for notice in notices)
    assert reports[-1].commit.lost == 2


@pytest.mark.parametrize(("most_files", "read", "skipped"), [(6, [1, 2, 0], [5]), (3, [0, 1, 2, 0], [3, 2])])
def test_a_watch_that_is_behind_skips_and_counts(
    engine: Engine, tmp_path: Path, most_files: int, read: list[int], skipped: list[int]
) -> None:
    """Eight files wait, five of them for too long; rows are those of the other three."""
    paths = write_ring(tmp_path / "ring", ring_files(CAPTURES / "old-broker.pcap", 8))
    for number, path in enumerate(paths):
        os.utime(path, (1_792_000_000 + 10 * number,) * 2)
    sizes, packets = [path.stat().st_size for path in paths], [len(packets_of(path)[1]) for path in paths]
    reports = watched(engine, tmp_path, most_files=most_files, skip_behind_s=20)
    assert [report.files for report in reports] == read
    commit = reports[-1].commit
    assert commit.skipped == [5, sum(sizes[:5]), sum(packets[:5])]
    assert (commit.lost, reports[-1].skipped_packets) == (0, sum(packets[:5]))
    notices = [notice for report in reports for notice in report.notices]
    assert [notice.split(",")[0] for notice in notices] == [f"skipped {count} files" for count in skipped]
    (tmp_path / "read").mkdir()
    for path in paths[5:]:
        path.rename(tmp_path / "read" / path.name)
    found = tables_of_watch(tmp_path / "out")
    expected = tables_at_once(tmp_path / "read")
    assert found["exchanges"].num_rows == expected["exchanges"].num_rows > 0
    facts = read_figures(str(tmp_path / "out")).facts
    assert (facts.packets, facts.dropped_packets) == (sum(packets[5:]), sum(packets[:5]))


def start(tmp_path: Path, *options: str) -> "subprocess.Popen[bytes]":
    places = (
        "watch",
        tmp_path / "ring",
        "--out",
        tmp_path / "out",
        "--master",
        "local[2]",
    )
    when = ("--every", "200ms", "--settle", "0s", "--max-files", "3")
    return subprocess.Popen(
        [*COMMAND, *places, *when, "--format", "jsonl", "--quiet", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_a_run_that_is_killed_goes_on(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    files = ring_files(CAPTURES / "old-broker.pcap", 6 * (KILLS + 1))
    seen = 0
    for kill in range(KILLS):
        share = len(files) * (kill + 1) // (KILLS + 1)
        write_ring(tmp_path / "ring", files[seen:share], seen)
        seen = share
        run = start(tmp_path, *DELTA)
        assert run.stdout is not None
        first = run.stdout.readline()  # it is at work
        time.sleep(chance.random() * 1.5)
        run.send_signal(signal.SIGKILL)
        _, errors = run.communicate()
        assert json.loads(first)["event"] == "interval", errors
    write_ring(tmp_path / "ring", files[seen:], seen)
    finish(tmp_path, *DELTA)
    again = start(tmp_path, *DELTA)
    _, errors = again.communicate()
    assert again.returncode == 2
    assert b"is finished" in errors


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_a_run_that_is_killed_while_files_grow_goes_on(tmp_path: Path) -> None:
    """Bytes come while it is at work, and between runs; most parts end within a packet."""
    chance = random.Random(SEED)
    kills = max(KILLS // 2, 1)
    waiting = iter(growing_ring(tmp_path / "ring", 40 * (kills + 1), chance))
    for _ in range(kills):
        append_next(waiting)
        run = start(tmp_path, "--settle", "30s")
        assert run.stdout is not None
        first = run.stdout.readline()  # it is at work
        until = time.monotonic() + chance.random() * 1.5
        for _ in range(70):
            if time.monotonic() > until or not append_next(waiting):
                break
            time.sleep(0.02)
        run.send_signal(signal.SIGKILL)
        _, errors = run.communicate()
        assert json.loads(first)["event"] == "interval", errors
    while append_next(waiting):
        pass
    finish(tmp_path)


def finish(tmp_path: Path, *options: str) -> None:
    """Watch until all is read; all rows are those of one dissection."""
    run = start(tmp_path, "--until-idle", "2s", *options)
    lines, errors = run.communicate()
    assert run.returncode == 0, errors
    assert json.loads(lines.splitlines()[-1])["open_connections"] == 0
    assert_same(tables_of_watch(tmp_path / "out"), expected := tables_at_once(tmp_path / "ring"))
    if options == DELTA:
        assert_same(tables_of_delta(tmp_path / "out"), expected)


def known(reports: list[BatchReport]) -> list[dict[str, Any]]:
    log: list[dict[str, Any]] = reports[-1].commit.incidents["log"]
    return log


def test_an_incident_is_told_while_it_lasts(engine: Engine, tmp_path: Path) -> None:
    (file,) = open_inputs([str(CAPTURES / "incidents" / "broker-frozen-1.pcapng.zst")], str(tmp_path)).files
    (tmp_path / "whole.pcap").write_bytes(as_pcap(Path(file.path)))
    write_ring(tmp_path / "ring", ring_files(tmp_path / "whole.pcap", 12))
    reports = watched(engine, tmp_path, most_files=1)
    opened: dict[int, int] = {}
    for report in reports:
        for one in report.incidents:
            if one.change == "opened":
                assert one.incident.number not in opened
                opened[one.incident.number] = report.commit.batch
    now_ns = max(one["last_ns"] for one in known(reports))
    (frozen,) = (
        one for one in known(reports) if one["last_ns"] == now_ns and one["cause"] == "broker_frozen"
    )
    assert frozen["subject"] == "broker 3 (127.0.0.1:39092)"
    assert 0 < opened[frozen["number"]] < 8
    assert frozen["closed"]  # it ended ten seconds before the captures did
    assert len(list((tmp_path / "checkpoint" / "partials").iterdir())) == len(reports)
