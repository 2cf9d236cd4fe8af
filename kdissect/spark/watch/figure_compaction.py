"""Files of figures are joined as they age, and removed after a week.

Those of one minute of capture time are joined once the minute is over, those of one hour after two more
hours, on coarser grids. So an hour can be cut by minutes, a day by hours. A run that is killed meanwhile
leaves files whose range lies within that of another one: they do not count, and are removed the next time.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

from kdissect.capture.storage_folder import StorageFolder
from kdissect.report.build.regrid import StepGrids, regrid
from kdissect.report.partials import merge
from kdissect.report.timeline.grid import Grid
from kdissect.spark.watch.figure_files import (
    HOUR_NS,
    MINUTE_NS,
    NAME,
    OPEN_NAME,
    batches_of,
    joined,
    range_name,
    read_header,
    read_partial,
    to_bytes,
)

FINE_NS = 2 * HOUR_NS
"""So long files stay those of a minute, after their hour has ended."""

KEPT_NS = 7 * 24 * HOUR_NS
COARSE_SIGNAL_NS, COARSE_PAGE_NS = 5_000_000_000, MINUTE_NS
"""The steps of an hour that is joined."""


class _Span(NamedTuple):
    """A file, and the time of its last packet."""

    name: str
    first_batch: int
    last_ns: int


class FigureCompaction:
    """The files of one folder. Methods raise OSError."""

    def __init__(self, folder: StorageFolder) -> None:
        self._folder = folder
        self._known: dict[str, _Span] = {}  # of files that are there, so that each is read once

    def clean(self, last_batch: int) -> None:
        """Remove what belongs to no committed batch, and what was open after earlier batches."""
        for name in (file.name for file in self._folder.files()):
            found, is_open = NAME.fullmatch(name), OPEN_NAME.fullmatch(name)
            if (
                name.startswith(".")
                or (found and int(found[2]) > last_batch)
                or (is_open and int(is_open[1]) != last_batch)
            ):
                self._folder.remove(name)

    def compact(self, now_ns: int) -> None:
        """Join files of minutes and hours that are over, and remove those of more than a week ago."""
        names = {file.name for file in self._folder.files()}
        counted = {range_name(*batches) for batches in batches_of(names)}
        self._remove(name for name in names - counted if NAME.fullmatch(name))
        self._known = {name: self._span(name) for name in sorted(counted)}
        spans = list(self._known.values())
        self._remove(one.name for one in spans if one.last_ns < now_ns - KEPT_NS)
        fresh = [one for one in spans if one.last_ns >= now_ns - KEPT_NS]
        for (_, age), group in groupby(fresh, lambda span: _age(span, now_ns)):
            members = list(group)
            if age and len(members) > 1:
                self._join([one.name for one in members], coarse=age == HOUR_NS)

    def _span(self, name: str) -> _Span:
        if name in self._known:
            return self._known[name]
        header = read_header(self._folder.read(name), name)
        return _Span(name, header.first_batch, header.last_ns)

    def _join(self, names: Sequence[str], *, coarse: bool) -> None:
        data = {name: self._folder.read(name) for name in names}
        headers = [read_header(content, name) for name, content in data.items()]
        grids = headers[0].grids
        if coarse:
            grids = StepGrids(_coarse(grids.signals, COARSE_SIGNAL_NS), _coarse(grids.page, COARSE_PAGE_NS))
        partials = [
            regrid(read_partial(content, name), header.grids, grids)
            for (name, content), header in zip(data.items(), headers, strict=True)
        ]
        header = replace(joined(headers), grids=grids)
        self._folder.write(header.name, to_bytes(header, merge(partials)))
        self._remove(names)

    def _remove(self, names: Iterable[str]) -> None:
        for name in names:
            self._folder.remove(name)


def _age(span: _Span, now_ns: int) -> tuple[int, int]:
    """Return with what a file is joined: the number of an hour or minute, and its length or 0."""
    if span.last_ns // HOUR_NS * HOUR_NS < now_ns - HOUR_NS - FINE_NS:
        return span.last_ns // HOUR_NS, HOUR_NS
    if span.last_ns // MINUTE_NS < now_ns // MINUTE_NS:
        return span.last_ns // MINUTE_NS, MINUTE_NS
    return span.first_batch, 0


def _coarse(grid: Grid, step_ns: int) -> Grid:
    """Return an endless grid with steps that are not shorter than `step_ns`."""
    step_ns = max(step_ns, grid.step_ns)
    return Grid(grid.start_ns // step_ns * step_ns, step_ns, grid.steps)
