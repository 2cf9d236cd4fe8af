"""The screen of a watch as lines that fit a terminal: what it shows, and what keys do to it.

In come reports of batches and keys. Out comes what Rich draws. Nothing here knows a terminal (`live_view`).
"""

from collections import deque
from collections.abc import Callable, Iterable
from textwrap import wrap

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from kdissect.live.recent_calls import DIMENSIONS, CallRow, RecentCalls
from kdissect.live.watch_events import incident_line, text_lines
from kdissect.report.incidents.incident_log import ChangeKind, IncidentChange
from kdissect.spark.watch.watch_query import BatchReport
from kdissect.text import display_width, escape, format_count, format_duration, format_size, truncate

BARS = "▁▂▃▄▅▆▇█"
SORTS = ("per_second", "p99_ns", "errors", "unanswered", "bytes")
MOST_INCIDENTS = 6
MOST_NOTICES = 2
KEYS = "q quit  p pause  s sort  tab 1-4 table"
ELLIPSIS = "…"
GAP = "  "  # between the figures of a line
STYLES = {ChangeKind.OPENED: "bold red", ChangeKind.UPDATED: "red", ChangeKind.CLOSED: "dim"}
CELLS: dict[str, Callable[[CallRow], str]] = {
    "per_second": lambda row: f"{row.per_second:,.1f}",
    "p50_ns": lambda row: _at_most(row.p50_ns),
    "p99_ns": lambda row: _at_most(row.p99_ns),
    "errors": lambda row: format_count(row.errors),
    "unanswered": lambda row: format_count(row.unanswered),
    "bytes": lambda row: format_size(row.bytes),
}
TITLES = {"per_second": "per second", "p50_ns": "p50", "p99_ns": "p99"}


class WatchScreen:
    """See the module's text."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._calls = RecentCalls()
        self._shown: BatchReport | None = None
        self._incidents: dict[int, IncidentChange] = {}
        self._notices: deque[str] = deque(maxlen=MOST_NOTICES)
        self._dimension, self._sort = 0, 0
        self.paused = False

    def add(self, report: BatchReport) -> None:
        """Add a batch."""
        self._calls.add(report)
        self._shown = report
        self._notices.extend(report.notices)
        for change in report.incidents:
            self._incidents.pop(change.incident.number, None)
            self._incidents[change.incident.number] = change
        while len(self._incidents) > MOST_INCIDENTS:
            closed = (n for n, one in self._incidents.items() if one.change is ChangeKind.CLOSED)
            del self._incidents[next(closed, next(iter(self._incidents)))]

    def press(self, key: str) -> None:
        """Do what a key asks for; unknown keys do nothing."""
        if key == "p":
            self.paused = not self.paused
        elif key == "s":
            self._sort = (self._sort + 1) % len(SORTS)
        elif key == "\t":
            self._dimension = (self._dimension + 1) % len(DIMENSIONS)
        elif key in "1234":
            self._dimension = int(key) - 1

    def draw(self, width: int, height: int) -> RenderableType:
        """Return the screen for a terminal of some columns and lines."""
        lines = list(self._head(width))
        rows = self._calls.rows(DIMENSIONS[self._dimension], SORTS[self._sort])
        return Group(*lines, self._table(rows[: max(height - len(lines) - 4, 1)], width), _line(KEYS, width))

    def _head(self, width: int) -> Iterable[Text]:
        state = "  paused" if self.paused else ""
        yield _line(f"kdissect watch  {escape(self._label)}{state}", width, "bold")
        if self._shown is None:
            yield _line("waiting for the first closed file", width)
            return
        *_, figures = text_lines(_without_events(self._shown))
        yield from (_line(line, width) for line in packed(figures.split(GAP), width))
        yield _line(f"rate {course(self._calls.rates, width - 5)}", width, "cyan")
        yield _line(f"p99  {course(self._calls.p99s_ns, width - 5)}", width, "yellow")
        for notice in self._notices:
            yield _line(f"missing: {escape(notice)}", width, "yellow")
        for change in reversed(self._incidents.values()):
            for line in wrap(incident_line(change), width, max_lines=2, placeholder=ELLIPSIS):
                yield _line(line, width, STYLES[change.change])

    def _table(self, rows: list[CallRow], width: int) -> Table:
        table = Table(box=None, width=width, pad_edge=False, padding=(0, 2, 0, 0))
        name = DIMENSIONS[self._dimension]
        table.add_column(name, ratio=1, no_wrap=True, overflow="ellipsis")
        for column in CELLS:
            title = TITLES.get(column, column) + ("▼" if column == SORTS[self._sort] else "")
            table.add_column(title, justify="right", no_wrap=True)
        for row in rows:
            cells = (Text(cell(row)) for cell in CELLS.values())
            table.add_row(Text(escape(row.name) or "-"), *cells)
        return table


def course(values: Iterable[float], width: int) -> str:
    """Return the last values as bars, the highest of them as the tallest one.

    >>> course([0, 1, 7], 10)
    '▁▂█'
    """
    last = list(values)[-width:] if width > 0 else []
    highest = max(last, default=0) or 1
    return "".join(BARS[round(value / highest * (len(BARS) - 1))] for value in last)


def packed(parts: Iterable[str], width: int) -> list[str]:
    """Return parts in as few lines of a width as they need.

    >>> packed(["12:00:05", "3 files", "7 errors"], 20)
    ['12:00:05  3 files', '7 errors']
    """
    lines: list[str] = []
    for part in parts:
        if lines and display_width(lines[-1] + GAP + part) <= width:
            lines[-1] += GAP + part
        else:
            lines.append(part)
    return lines


def _without_events(report: BatchReport) -> BatchReport:
    return BatchReport(
        report.commit, report.figures, report.files, report.span_ns, report.seconds,
        dropped_packets=report.dropped_packets, skipped_packets=report.skipped_packets,
    )  # fmt: skip


def _line(text: str, width: int, style: str = "") -> Text:
    shown = text if display_width(text) <= width else truncate(text, width, ELLIPSIS)
    return Text(shown, style=style, no_wrap=True, end="\n")


def _at_most(ns: int | None) -> str:
    return "-" if ns is None else f"≤{format_duration(ns)}"
