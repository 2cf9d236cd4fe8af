"""Watched captures give the rows of one dissection of all files, whatever happens meanwhile."""

import os
import random
from collections.abc import Callable, Iterator
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import pytest

from kdissect.capture.inputs import open_inputs
from kdissect.live.delta_tables import DeltaTables
from kdissect.spark.session import Engine
from kdissect.spark.watch.batch_job import BatchReport
from kdissect.spark.watch.figure_reader import read_figures
from kdissect.spark.watch.watch_query import WatchQuery
from tests.helpers.command_here import kdissect_here
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
from tests.helpers.tiers import ALL, thorough_after
from tests.helpers.watching import KILLS, SEED, WHEN, kill_at_work, start_watch, watch_until_idle

DELTA = ("--out-format", "delta")
OPTIONS = ("--settle", "0s", "--max-files", "3")


def watched(
    engine: Engine, tmp_path: Path, after: Callable[[], object] = lambda: None, **settings: object
) -> list[BatchReport]:
    """Watch a ring until it is idle; return the reports of all batches. `after` is called after each."""
    ring, out = tmp_path / "ring", tmp_path / "out"

    def call_after(_report: BatchReport) -> None:
        after()

    return watch_until_idle(engine, ring, out, tmp_path / "scratch", lambda _store: call_after, **settings)


@pytest.mark.thorough
def test_batches_of_any_size_give_the_same_rows(engine: Engine, tmp_path: Path) -> None:
    ring, count = tmp_path / "ring", 3
    write_ring(ring, ring_files(CAPTURES / "old-broker.pcap", count))
    expected = tables_at_once(ring)
    for most_files in (1, 2, 50):
        out = tmp_path / f"out-{most_files}"
        reports = watch_until_idle(engine, ring, out, tmp_path / "scratch", most_files=most_files)
        sizes = [min(most_files, count - first) for first in range(0, count, most_files)]
        assert [report.files for report in reports] == [*sizes, 0]
        assert_same(tables_of_watch(out), expected)
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
    parts = growing_ring(tmp_path / "ring", 2 if ALL else 1, chance)
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


@pytest.mark.parametrize(
    ("most_files", "read", "skipped"), thorough_after(1, [(3, [0, 1, 2, 0], [3, 2]), (6, [1, 2, 0], [5])])
)
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


@pytest.mark.timeout(900)
def test_a_run_that_is_killed_goes_on(engine: Engine, tmp_path: Path) -> None:
    chance = random.Random(SEED)
    ring, out = tmp_path / "ring", tmp_path / "of line ä"
    files = ring_files(CAPTURES / "old-broker.pcap", 6 if KILLS == 1 else 12)
    seen = 0
    for kill in range(KILLS):
        share = len(files) * (kill + 1) // (KILLS + 1)
        write_ring(ring, files[seen:share], seen)
        seen = share
        kill_at_work(start_watch(ring, out, *OPTIONS, *DELTA), chance)
    write_ring(ring, files[seen:], seen)
    reports = watch_until_idle(
        engine, ring, out, tmp_path, lambda store: DeltaTables(store).account, most_files=3
    )
    assert reports[-1].figures.open == 0
    expected = tables_at_once(ring)
    assert_same(tables_of_watch(out), expected)
    assert_same(tables_of_delta(out), expected)
    again = kdissect_here("watch", ring, "--out", out, *WHEN, *OPTIONS, *DELTA, engine=engine)
    assert again.returncode == 2
    assert "is finished" in again.stderr
    assert "of line ä" in (names := {path.name for path in tmp_path.iterdir()})
    assert not [name for name in names if name.startswith("of%20line")]


@pytest.mark.thorough
@pytest.mark.timeout(900)
def test_a_run_that_is_killed_while_files_grow_goes_on(engine: Engine, tmp_path: Path) -> None:
    """Bytes come while it is at work, and between runs; most parts end within a packet."""
    chance = random.Random(SEED)
    kills = max(KILLS // 2, 1)
    waiting = iter(growing_ring(tmp_path / "ring", 40 * kills, chance))
    for _ in range(kills):
        append_next(waiting)
        run = start_watch(tmp_path / "ring", tmp_path / "out", "--settle", "30s")
        kill_at_work(run, chance, lambda: append_next(waiting))
    while append_next(waiting):
        pass
    reports = watched(engine, tmp_path)
    assert reports[-1].figures.open == 0
    assert_same(tables_of_watch(tmp_path / "out"), tables_at_once(tmp_path / "ring"))


def known(reports: list[BatchReport]) -> list[dict[str, Any]]:
    log: list[dict[str, Any]] = reports[-1].commit.incidents["log"]
    return log


def test_an_incident_is_told_while_it_lasts(engine: Engine, tmp_path: Path) -> None:
    (file,) = open_inputs([str(CAPTURES / "incidents" / "broker-frozen-1.pcapng.zst")], str(tmp_path)).files
    (tmp_path / "whole.pcap").write_bytes(as_pcap(Path(file.path)))
    write_ring(tmp_path / "ring", ring_files(tmp_path / "whole.pcap", 6))
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
    assert 0 < opened[frozen["number"]] < 4
    assert frozen["closed"]  # it ended ten seconds before the captures did
    assert len(list((tmp_path / "out" / "_checkpoint" / "partials").iterdir())) == len(reports)
