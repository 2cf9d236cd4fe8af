"""Files of figures: joined by minute and hour with the same sums, whatever is left over or damaged."""

from pathlib import Path

import pyarrow as pa
import pytest

from kdissect.report.build.regrid import StepGrids
from kdissect.report.model.summary import AppliedFilter, CaptureFacts
from kdissect.report.partials import EMPTY, Partial
from kdissect.report.timeline.grid import Grid
from kdissect.report.timeline.timeline_tables import ACTIVITY
from kdissect.spark.watch.figure_files import (
    FOLDER,
    HOUR_NS,
    KEPT_NS,
    MINUTE_NS,
    FigureHeader,
    FiguresError,
    batches_of,
    clean,
    compact,
    read_header,
    read_partial,
    to_bytes,
    write_batch,
)
from kdissect.spark.watch.figure_reader import read_figures

STEP_NS = 5_000_000_000
GRIDS = StepGrids(Grid(0, STEP_NS // 10, 1 << 30), Grid(0, STEP_NS, 1 << 30))


def activity(time_ns: int, exchanges: int) -> Partial:
    """Return a partial with some exchanges in one step of the page."""
    values = {"step": time_ns // STEP_NS, "api_key": 1, "exchanges": exchanges}
    columns = {field.name: [values.get(field.name)] for field in ACTIVITY.schema}
    return Partial({ACTIVITY.name: pa.table(columns, schema=ACTIVITY.schema)})


def header(batch: int, last_ns: int) -> FigureHeader:
    facts = CaptureFacts(files=(f"{batch}.pcap",), packets=10, first_time_ns=last_ns, last_time_ns=last_ns)
    filters = (AppliedFilter(option="--api", values=("fetch",)),)
    return FigureHeader(batch, batch, last_ns, last_ns, GRIDS, facts, filters)


def write(out: Path, times_ns: list[int]) -> None:
    for batch, time_ns in enumerate(times_ns):
        write_batch(out, header(batch, time_ns), activity(time_ns, 1 << batch), EMPTY)


def names(out: Path) -> list[str]:
    return sorted(path.name for path in (out / FOLDER).iterdir() if not path.name.startswith("open"))


def exchanges(out: Path, last_ns: int | None = None) -> int:
    figures = read_figures(str(out), last_ns)
    return sum(figures.partial.table(ACTIVITY)["exchanges"].to_pylist())


def test_files_are_joined_as_they_age(tmp_path: Path) -> None:
    times = [step * STEP_NS for step in (0, 1, 12, 13, 24)]
    write(tmp_path, times)
    compact(tmp_path / FOLDER, times[-1])
    assert names(tmp_path) == [
        f"{name}.arrow" for name in ("00000000-00000001", "00000002-00000003", "00000004-00000004")
    ]
    assert exchanges(tmp_path) == 0b11111
    assert exchanges(tmp_path, MINUTE_NS) == 0b11100  # whole minutes
    assert exchanges(tmp_path, STEP_NS) == 0b10000
    compact(tmp_path / FOLDER, 4 * HOUR_NS)
    assert names(tmp_path) == ["00000000-00000004.arrow"]
    assert exchanges(tmp_path) == 0b11111
    figures = read_figures(str(tmp_path))
    assert figures.grids.page == Grid(0, MINUTE_NS, 3)
    assert figures.partial.table(ACTIVITY)["step"].to_pylist() == [0, 1, 2]
    assert figures.facts.packets == 50
    assert len(figures.facts.files) == 5
    assert figures.filters[0].values == ("fetch",)
    compact(tmp_path / FOLDER, KEPT_NS + HOUR_NS)
    assert names(tmp_path) == []


def test_what_is_left_over_does_not_count(tmp_path: Path) -> None:
    write(tmp_path, [0, STEP_NS, 2 * STEP_NS])
    before = {path.name: path.read_bytes() for path in (tmp_path / FOLDER).iterdir()}
    compact(tmp_path / FOLDER, MINUTE_NS)
    assert names(tmp_path) == ["00000000-00000002.arrow"]
    for name, data in before.items():  # as after a kill between joining and removing
        (tmp_path / FOLDER / name).write_bytes(data)
    assert exchanges(tmp_path) == 0b111
    clean(tmp_path / FOLDER, 2)
    assert not (tmp_path / FOLDER / "open-00000001.arrow").exists()
    compact(tmp_path / FOLDER, MINUTE_NS)
    assert names(tmp_path) == ["00000000-00000002.arrow"]


def test_what_was_never_committed_is_removed(tmp_path: Path) -> None:
    write(tmp_path, [0, STEP_NS])
    (tmp_path / FOLDER / ".00000000-00000001.arrow").touch()
    clean(tmp_path / FOLDER, 0)
    assert names(tmp_path) == ["00000000-00000000.arrow"]


def test_ranges_within_others_do_not_count() -> None:
    found = batches_of(["00000000-00000004.arrow", "00000003-00000003.arrow", "00000005-00000005.arrow", "x"])
    assert found == [(0, 4), (5, 5)]


def test_damaged_files_are_one_sentence() -> None:
    data = to_bytes(header(0, STEP_NS), activity(0, 1))
    assert read_header(data, "a") == header(0, STEP_NS)
    for wrong in (b"", data[:100], b"\xff" * 64, data.replace(b'"format": 1', b'"format": 7')):
        with pytest.raises(FiguresError):
            read_header(wrong, "a")
    other = pa.table({"x": [1]})
    with pytest.raises(FiguresError, match="another version"):
        read_partial(to_bytes(header(0, 0), Partial({ACTIVITY.name: other})), "a")
    with pytest.raises(FiguresError):
        read_partial(data[: len(data) * 3 // 4], "a")
