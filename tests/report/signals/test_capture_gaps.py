"""A gap of the captures is no incident: neither a silence, nor a rate that falls."""

from pathlib import Path

import pyarrow as pa
import pytest

from kdissect.capture.index.growing_index import GrowingIndex
from kdissect.capture.index.index import index_captures
from kdissect.capture.inputs import open_inputs
from kdissect.report.build.recent_report import endless_grid, recent_report
from kdissect.report.model.incidents import Signal, Subject, SubjectKind
from kdissect.report.model.summary import CaptureGap
from kdissect.report.partials import from_arrow
from kdissect.report.signals.capture_gaps import without_gaps
from kdissect.spark import tasks
from kdissect.spark.figures_step import summary_step
from kdissect.spark.watch.file_journal import TakenFile
from kdissect.spark.watch.late_files import count_skipped
from tests.helpers.rings import CAPTURES, as_pcap, ring_files, write_ring

SECOND = 10**9
GAP = CaptureGap(begin_ns=100 * SECOND, end_ns=110 * SECOND, packets=7)


def causes(paths: list[Path], gaps: tuple[CaptureGap, ...]) -> set[str]:
    """Return the causes in the report of a watch on some files."""
    index = index_captures(open_inputs([str(path) for path in paths], "").files)
    assert index.earliest_time_ns is not None
    assert index.latest_time_ns is not None
    grid = endless_grid(index.earliest_time_ns)
    ordinals = (pa.record_batch({"split": [split.index]}) for split in index.splits)
    pieces = tasks.scan_step(ordinals, index.splits, ())
    partial = from_arrow(tasks.partials_only(list(summary_step(pieces, index.splits, steps=grid))))
    span = index.earliest_time_ns, index.latest_time_ns
    report = recent_report([partial], grid, *span, index.packets, gaps)
    assert report.capture.dropped_packets == sum(gap.packets for gap in gaps)
    return {incident.cause for incident in report.incidents}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "first", "false"),
    [
        ("steady.pcapng", 4, {"rate_changed"}),
        ("incidents/burst-1.pcapng.zst", 4, {"follower_behind", "rate_changed"}),
        ("incidents/joins-and-leaves-1.pcapng.zst", 2, {"broker_frozen"}),
    ],
)
def test_a_gap_in_healthy_traffic_is_no_incident(
    tmp_path: Path, name: str, first: int, false: set[str]
) -> None:
    (file,) = open_inputs([str(CAPTURES / name)], str(tmp_path)).files
    (tmp_path / "whole.pcap").write_bytes(as_pcap(Path(file.path)))
    paths = write_ring(tmp_path / "ring", ring_files(tmp_path / "whole.pcap", 10))
    skipped = paths[first : first + (3 if first == 4 else 2)]
    taken = [TakenFile(0, str(path), path.stat().st_size, 0, "", 0) for path in skipped]
    gaps = count_skipped(taken, GrowingIndex()).gaps
    assert len(gaps) == 1
    kept = [path for path in paths if path not in skipped]
    assert causes(kept, ()) >= false
    assert causes(kept, gaps) == set()


def signal(kind: str, begin_s: float, end_s: float | None) -> Signal:
    return Signal(
        kind=kind,
        subject=Subject(kind=SubjectKind.SERVER, name="broker 1"),
        begin_ns=round(begin_s * SECOND),
        end_ns=None if end_s is None else round(end_s * SECOND),
        sentence="",
        measures={},
        **dict.fromkeys(("servers", "clients", "groups", "topics", "evidence"), ()),
        requests=1,
        wait_ns=1,
    )


@pytest.mark.parametrize(
    ("kind", "begin_s", "end_s", "stays"),
    [
        ("server_silent", 99.5, 111, False),
        ("server_silent", 95, 111, True),  # 3.5 s of it are beside the gap
        ("server_silent", 99.5, None, True),
        ("server_silent", 80, 82, True),
        ("rate_fell", 99, 110, False),
        ("rate_rose", 111, None, False),
        ("rate_fell", 115, None, True),
        ("attempts_refused", 105, 106, True),
        ("latency_rose", 110.5, None, True),
    ],
)
def test_what_a_gap_cannot_make_stays(kind: str, begin_s: float, end_s: float | None, stays: bool) -> None:
    one = signal(kind, begin_s, end_s)
    assert list(without_gaps([one], (), 200 * SECOND)) == [one]
    assert list(without_gaps([one], (GAP,), 200 * SECOND)) == ([one] if stays else [])


def test_every_kind_is_a_signal() -> None:
    from kdissect.report.signals.capture_gaps import LEVELS, SILENCES
    from kdissect.report.signals.sources import KINDS

    assert set(SILENCES) | set(LEVELS) <= set(KINDS)
