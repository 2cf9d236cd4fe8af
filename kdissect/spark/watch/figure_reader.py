"""WatchFigures for a report, read back from what `kdissect watch --out` wrote (`figure_files`).

In comes the place of the tables and how much of the last time is wanted; out goes one merged partial with its
grids and facts. The watch may go on meanwhile: batches are counted up to the one whose open file is read, and
a file that compaction has removed after it was listed makes the listing start again.
"""

from typing import NamedTuple

from kdissect.capture.storage_folder import StorageFolder, open_folder
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
from kdissect.text import without_password

TRIES = 5


class WatchFigures(NamedTuple):
    """Figures that a report is built from."""

    partial: Partial
    facts: CaptureFacts
    grids: StepGrids
    filters: tuple[AppliedFilter, ...]


def read_figures(place: str, last_ns: int | None = None) -> WatchFigures:
    """Return the figures of a watch, of all times or of the last `last_ns` of its captures.

    Raise FiguresError if there are none or if they are damaged, and for a place that cannot be read.
    """
    for attempt in range(TRIES):
        try:
            folder = open_folder(place).below(FOLDER)
            listed = [file.name for file in folder.files()]
            names = [name for name in listed if NAME.fullmatch(name) or OPEN_NAME.fullmatch(name)]
            if not names:
                break
            return _figures(folder, names, last_ns)
        except FileNotFoundError:
            if attempt == TRIES - 1:
                break
        except OSError as error:
            reason = (error.strerror or str(error)).partition("\n")[0]
            raise UserError(without_password(f"cannot read {place}: {reason}")) from None
    raise FiguresError(f"{without_password(place)} holds no figures: kdissect watch --out writes them")


def _figures(folder: StorageFolder, names: list[str], last_ns: int | None) -> WatchFigures:
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
