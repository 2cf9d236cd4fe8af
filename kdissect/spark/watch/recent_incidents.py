"""Incidents of a watch: found after each batch in the partials of the last ten minutes.

The partials of finished rows are kept, a file for each batch in the checkpoint, as long as their batch is in
the window. Open requests are added from the last batch only. So a report sees what one analysis of these
batches would see, and a server that stopped to answer is an incident before its first late response.
Counters of a connection that is still open count from its beginning, also before the window.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from kdissect.memory import release_memory
from kdissect.report.build.recent_report import (
    WINDOW_NS,
    endless_grid,
    endless_page_grid,
    recent_report,
)
from kdissect.report.build.regrid import without_page
from kdissect.report.incidents.incident_log import IncidentChange, IncidentLog
from kdissect.report.model.summary import CaptureGap, Summary
from kdissect.report.partials import EMPTY, Partial, from_arrow, to_arrow
from kdissect.report.timeline.grid import Grid
from kdissect.spark.arrow_ipc import from_blob, to_blob
from kdissect.spark.capture_facts import joined_gaps
from kdissect.spark.watch.hour_writer import write_synced
from kdissect.spark.watch.window_partials import WindowPartials


class BatchSpan(NamedTuple):
    """Facts about a batch in the window."""

    batch: int
    first_ns: int
    last_ns: int
    packets: int


class RecentIncidents:
    """The partials of the window, and the log of incidents; `carried` is what `state` returned."""

    def __init__(self, folder: Path, carried: Any = None) -> None:
        state = carried or {"origin_ns": None, "spans": [], "log": []}
        self._gaps = tuple(CaptureGap(**gap) for gap in state.get("gaps", []))
        self._folder = folder
        self._origin_ns: int | None = state["origin_ns"]
        self._spans = [BatchSpan(*span) for span in state["spans"]]
        self._log = IncidentLog(state["log"])
        self.finished, self.unfinished = EMPTY, EMPTY  # of the last batch
        self.summary: Summary | None = None
        """The report of the window, as the last batch left it."""
        self._partials = WindowPartials(
            lambda batch: _read(folder / _name(batch)), [span.batch for span in self._spans]
        )

    @property
    def origin_ns(self) -> int:
        """The time of the first packet of the first batch with packets; 0 before."""
        return self._origin_ns or 0

    def grid(self, first_ns: int | None) -> Grid:
        """Return the grid of all batches; the first packet of the first one with packets decides."""
        if self._origin_ns is None and first_ns is not None:
            self._origin_ns = first_ns
        return endless_grid(self.origin_ns)

    def page_grid(self) -> Grid:
        """Return the grid of all batches for pages; `grid` was called before."""
        return endless_page_grid(self.origin_ns)

    def add(
        self,
        span: BatchSpan,
        finished: Sequence[bytes],
        unfinished: Sequence[bytes],
        gaps: Iterable[CaptureGap] = (),
    ) -> list[IncidentChange]:
        """Add the partials of a batch, and the gaps before it. Return what changed."""
        self._gaps = joined_gaps([*self._gaps, *gaps])
        self.finished, self.unfinished = _merged(finished), _merged(unfinished)
        now_ns = max((one.last_ns for one in [*self._spans, span]), default=0)
        if not span.packets:  # rows of connections that have ended
            span = span._replace(first_ns=now_ns, last_ns=now_ns)
        if not now_ns:
            return []
        self._keep(span, without_page(self.finished))
        self._spans = [one for one in self._spans if one.last_ns > now_ns - WINDOW_NS]
        self._partials.keep({one.batch for one in self._spans})
        self._gaps = tuple(gap for gap in self._gaps if gap.end_ns > now_ns - WINDOW_NS)
        self.summary = recent_report(
            [*self._partials.all(), without_page(self.unfinished)],
            self.grid(None),
            min(one.first_ns for one in self._spans),
            now_ns,
            sum(one.packets for one in self._spans),
            self._gaps,
        )
        changes = self._log.update(self.summary.incidents, now_ns)
        release_memory()  # a report takes as much as the window, and the next one is some seconds away
        return changes

    def _keep(self, span: BatchSpan, partial: Partial) -> None:
        self._folder.mkdir(exist_ok=True, mode=0o700)
        write_synced(self._folder / _name(span.batch), to_blob(to_arrow(partial)))
        self._spans.append(span)
        self._partials.add(span.batch, partial)

    def state(self) -> Any:
        """Return what another process goes on with, as plain values."""
        return {
            "origin_ns": self._origin_ns,
            "spans": [list(span) for span in self._spans],
            "log": self._log.carried(),
            **({"gaps": [asdict(gap) for gap in self._gaps]} if self._gaps else {}),
        }

    def clean(self) -> None:
        """Remove the files of batches that are in the window no more, or were never committed."""
        kept = {_name(span.batch) for span in self._spans}
        for path in self._folder.glob("*") if self._folder.is_dir() else ():
            if path.name not in kept:
                path.unlink(missing_ok=True)


def _name(batch: int) -> str:
    return f"{batch:08}.arrow"


def _read(path: Path) -> Partial:
    return _merged([path.read_bytes()])


def _merged(blobs: Iterable[bytes]) -> Partial:
    return from_arrow(batch for blob in blobs for batch in from_blob(blob))
