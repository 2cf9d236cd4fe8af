"""A slice of the last minute: what it holds, and why there may be none."""

import os
import threading
import time
from pathlib import Path

import pytest

from kdissect.capture.index.index import index_captures
from kdissect.capture.inputs import open_inputs
from kdissect.live.minute_slice import GONE, LOW_PRIORITY, NOTHING_READ, MinuteSlice
from kdissect.live.recent_calls import WINDOW_NS
from kdissect.spark.watch.batch_job import BatchReport
from kdissect.spark.watch.batch_step import BatchFigures
from kdissect.spark.watch.batch_store import Commit
from kdissect.spark.watch.file_journal import TakenFile, head_of
from tests.helpers.recorded import CAPTURES

NAMES = ("steady.pcapng", "broker-restart.pcapng")


def taken(number: int, path: Path) -> TakenFile:
    size = path.stat().st_size
    return TakenFile(number, str(path), size, 0, head_of(str(path), 100), 100)


def latest_ns(path: Path) -> int:
    index = index_captures(open_inputs([str(path)], "").files)
    assert index.latest_time_ns is not None
    return index.latest_time_ns


def report(end_ns: int, *read: TakenFile, behind_ns: int = 0) -> BatchReport:
    """Return a batch; its time, that of the first packet of its newest file, may be `behind_ns` earlier."""
    figures = BatchFigures(rows={}, latency={})
    commit = Commit(now_ns=end_ns - behind_ns)
    return BatchReport(commit, figures, 1, 10**9, 0.1, [], [], list(read), latest_ns=end_ns)


@pytest.fixture
def ring(tmp_path: Path) -> list[Path]:
    for name in NAMES:
        (tmp_path / name).write_bytes((CAPTURES / name).read_bytes())
    return [tmp_path / name for name in NAMES]


def finished(slices: MinuteSlice) -> str:
    changed = threading.Event()
    slices.on_change = changed.set
    slices.write()
    assert slices.state.startswith("writing slice-")
    assert changed.wait(120)
    return slices.state


@pytest.mark.slow
def test_the_packets_of_the_last_minute_are_written(ring: list[Path], tmp_path: Path) -> None:
    """The recordings are hours apart, so only the later one counts."""
    slices = MinuteSlice(tmp_path)
    ends = [latest_ns(path) for path in ring]
    for number, (path, end_ns) in enumerate(zip(ring, ends, strict=True)):
        slices.add(report(end_ns, taken(number, path), behind_ns=20 * 10**9))
    state = finished(slices)
    out = tmp_path / f"slice-{max(ends) // 10**9}.pcapng"
    assert state.startswith(f"wrote {out}: ")
    written = index_captures(open_inputs([str(out)], "").files)
    assert written.packets > 1_000
    assert (written.earliest_time_ns or 0) >= max(ends) - WINDOW_NS
    assert written.latest_time_ns is not None
    assert max(ends) - 5 * 10**9 < written.latest_time_ns <= max(ends)


def test_it_is_written_with_a_low_priority_in_the_session_of_the_watch(
    ring: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = tmp_path / "python"
    waits.write_text("#!/bin/sh\nexec sleep 60\n")
    waits.chmod(0o700)
    monkeypatch.setattr("sys.executable", str(waits))
    slices = MinuteSlice(tmp_path)
    slices.add(report(latest_ns(ring[1]), taken(0, ring[1])))
    slices.write()
    while (process := slices._process) is None or os.getpriority(
        os.PRIO_PROCESS, process.pid
    ) != LOW_PRIORITY:
        time.sleep(0.01)
    assert (os.getsid(process.pid), os.getpgid(process.pid)) == (os.getsid(0), process.pid)
    slices.stop()


@pytest.mark.slow
def test_captures_that_are_gone_are_counted(ring: list[Path], tmp_path: Path) -> None:
    slices = MinuteSlice(tmp_path)
    end_ns = latest_ns(ring[1])
    slices.add(report(end_ns, *(taken(number, path) for number, path in enumerate(ring))))
    ring[0].unlink()
    assert finished(slices).startswith("1 capture of that time not there any more; wrote ")


def test_captures_that_are_gone_leave_nothing_to_write(ring: list[Path], tmp_path: Path) -> None:
    slices = MinuteSlice(tmp_path)
    slices.write()
    assert slices.state == NOTHING_READ
    slices.add(report(1, taken(0, ring[0])))
    ring[0].unlink()
    slices.write()
    assert slices.state == GONE
    assert not list(tmp_path.glob("slice-*"))


@pytest.mark.slow
def test_a_capture_that_cannot_be_sliced_is_a_sentence(tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.pcap"
    damaged.write_bytes(b"no capture at all" * 100)
    slices = MinuteSlice(tmp_path)
    slices.add(report(10**18, taken(0, damaged)))
    state = finished(slices)
    assert state.startswith("no slice: ")
    assert "Traceback" not in state
    assert not list(tmp_path.glob("slice-*"))


@pytest.mark.slow
def test_the_end_of_the_watch_ends_a_slice(ring: list[Path], tmp_path: Path) -> None:
    slices = MinuteSlice(tmp_path)
    slices.add(report(latest_ns(ring[1]), taken(1, ring[1])))
    slices.write()
    time.sleep(0.3)
    slices.stop()
    assert not list(tmp_path.glob("*.pcapng.*"))
    assert slices.state.startswith(("no slice: ", "wrote "))
