"""WatchFigures for a report, read back from what `kdissect watch --out` wrote (`figure_files`).

In comes the place of the tables and how much of the last time is wanted; out goes one merged partial with its
grids and facts. The watch may go on meanwhile: batches are counted up to the one whose open file is read, and
a file that compaction has removed after it was listed makes the listing start again.
"""

import os
from pathlib import Path
from typing import Any, NamedTuple

from kdissect.capture.storage import file_system, is_uri, local_path
from kdissect.errors import UserError
from kdissect.report.build.regrid import StepGrids, regrid
from kdissect.report.model.summary import AppliedFilter, CaptureFacts
from kdissect.report.partials import Partial, merge
from kdissect.spark.watch.figure_files import (
    FOLDER,
    NAME,
    OPEN_NAME,
    FigureHeader,
    FiguresError,
    batches_of,
    joined,
    open_name,
    range_name,
    read_header,
    read_partial,
    window_grids,
)

TRIES = 5


class WatchFigures(NamedTuple):
    """Figures that a report is built from."""

    partial: Partial
    facts: CaptureFacts
    grids: StepGrids
    filters: tuple[AppliedFilter, ...]


class _Folder:
    """The folder of figures, local or at a URI. Methods raise OSError."""

    def __init__(self, place: str) -> None:
        self._system: Any = None
        if is_uri(place):
            self._system, inside = file_system(place.rstrip("/"))
            self._path = f"{inside}/{FOLDER}"
        else:
            self._path = str(Path(local_path(place), FOLDER))

    def names(self) -> list[str]:
        if self._system is None:
            return os.listdir(self._path)
        from pyarrow.fs import FileSelector

        return [one.base_name for one in self._system.get_file_info(FileSelector(self._path))]

    def read(self, name: str) -> bytes:
        if self._system is None:
            return Path(self._path, name).read_bytes()
        with self._system.open_input_stream(f"{self._path}/{name}") as file:
            data: bytes = file.read()
        return data


def read_figures(place: str, last_ns: int | None = None) -> WatchFigures:
    """Return the figures of a watch, of all times or of the last `last_ns` of its captures.

    Raise FiguresError if there are none or if they are damaged, and for a place that cannot be read.
    """
    for attempt in range(TRIES):
        try:
            folder = _Folder(place)
            names = [name for name in folder.names() if NAME.fullmatch(name) or OPEN_NAME.fullmatch(name)]
            if not names:
                break
            return _figures(folder, names, last_ns)
        except FileNotFoundError:
            if attempt == TRIES - 1:
                break
        except OSError as error:
            raise UserError(f"cannot read {place}: {error.strerror or error}") from None
    raise FiguresError(f"{place} holds no figures: kdissect watch --out writes them")


def _figures(folder: _Folder, names: list[str], last_ns: int | None) -> WatchFigures:
    newest = max((int(found[1]) for name in names if (found := OPEN_NAME.fullmatch(name))), default=-1)
    ranges = [one for one in batches_of(names) if one[1] <= newest]
    data = {name: folder.read(name) for name in (range_name(*one) for one in ranges)}
    headers = [read_header(content, name) for name, content in data.items()]
    if not headers:
        raise FileNotFoundError
    end_ns = max(one.last_ns for one in headers)
    chosen = [one for one in headers if last_ns is None or one.last_ns > end_ns - last_ns]
    facts = joined(chosen).facts
    first_ns = min((one.first_ns for one in chosen if one.first_ns), default=0)
    grids = window_grids(chosen, first_ns, end_ns)
    unfinished = folder.read(open_name(newest))
    still_open = read_header(unfinished, open_name(newest))
    parts = [(one, read_partial(data[one.name], one.name)) for one in chosen]
    parts.append((still_open, read_partial(unfinished, open_name(newest))))
    merged = merge([_on(grids, header, partial) for header, partial in parts])
    return WatchFigures(merged, facts, grids, headers[-1].filters)


def _on(grids: StepGrids, header: FigureHeader, partial: Partial) -> Partial:
    return regrid(partial, header.grids, grids)
