"""Files of figures are joined by minute and hour with the same sums, whatever is left over."""

from pathlib import Path

from kdissect.capture.storage_folder import open_folder
from kdissect.report.partials import EMPTY
from kdissect.report.timeline.grid import Grid
from kdissect.report.timeline.timeline_tables import ACTIVITY
from kdissect.spark.watch.figure_compaction import KEPT_NS, FigureCompaction
from kdissect.spark.watch.figure_files import FOLDER, HOUR_NS, MINUTE_NS, write_batch
from kdissect.spark.watch.figure_reader import read_figures
from tests.helpers.made_figures import STEP_NS, activity, header


def write(out: Path, times_ns: list[int]) -> None:
    for batch, time_ns in enumerate(times_ns):
        write_batch(out, header(batch, time_ns), activity(time_ns, 1 << batch), EMPTY)


def compaction(out: Path) -> FigureCompaction:
    return FigureCompaction(open_folder(out / FOLDER))


def names(out: Path) -> list[str]:
    return sorted(path.name for path in (out / FOLDER).iterdir() if not path.name.startswith("open"))


def exchanges(out: Path, last_ns: int | None = None) -> int:
    figures = read_figures(str(out), last_ns)
    return sum(figures.partial.table(ACTIVITY)["exchanges"].to_pylist())


def test_files_are_joined_as_they_age(tmp_path: Path) -> None:
    times = [step * STEP_NS for step in (0, 1, 12, 13, 24)]
    write(tmp_path, times)
    compaction(tmp_path).compact(times[-1])
    assert names(tmp_path) == [
        f"{name}.arrow" for name in ("00000000-00000001", "00000002-00000003", "00000004-00000004")
    ]
    assert exchanges(tmp_path) == 0b11111
    assert exchanges(tmp_path, MINUTE_NS) == 0b11100  # whole minutes
    assert exchanges(tmp_path, STEP_NS) == 0b10000
    compaction(tmp_path).compact(4 * HOUR_NS)
    assert names(tmp_path) == ["00000000-00000004.arrow"]
    assert exchanges(tmp_path) == 0b11111
    figures = read_figures(str(tmp_path))
    assert figures.grids.page == Grid(0, MINUTE_NS, 3)
    assert figures.partial.table(ACTIVITY)["step"].to_pylist() == [0, 1, 2]
    assert figures.facts.packets == 50
    assert len(figures.facts.files) == 5
    assert figures.filters[0].values == ("fetch",)
    compaction(tmp_path).compact(KEPT_NS + HOUR_NS)
    assert names(tmp_path) == []


def test_what_is_left_over_does_not_count(tmp_path: Path) -> None:
    write(tmp_path, [0, STEP_NS, 2 * STEP_NS])
    before = {path.name: path.read_bytes() for path in (tmp_path / FOLDER).iterdir()}
    compaction(tmp_path).compact(MINUTE_NS)
    assert names(tmp_path) == ["00000000-00000002.arrow"]
    for name, data in before.items():  # as after a kill between joining and removing
        (tmp_path / FOLDER / name).write_bytes(data)
    assert exchanges(tmp_path) == 0b111
    compaction(tmp_path).clean(2)
    assert not (tmp_path / FOLDER / "open-00000001.arrow").exists()
    compaction(tmp_path).compact(MINUTE_NS)
    assert names(tmp_path) == ["00000000-00000002.arrow"]


def test_what_was_never_committed_is_removed(tmp_path: Path) -> None:
    write(tmp_path, [0, STEP_NS])
    (tmp_path / FOLDER / ".00000000-00000001.arrow").touch()
    compaction(tmp_path).clean(0)
    assert names(tmp_path) == ["00000000-00000000.arrow"]
