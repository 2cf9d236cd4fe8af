"""The screen of a watch as lines that fit a terminal: what it shows, and what keys do to it.

In come reports of batches and keys, as `keys` names them. Out comes what Rich draws. Nothing here knows a
terminal (`live_view`).
"""

import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping

from rich.console import Group, RenderableType
from rich.text import Text

from kdissect.live.minute_slice import MinuteSlice
from kdissect.live.recent_calls import DIMENSIONS, CallRow, RecentCalls
from kdissect.live.screen_parts import (
    GAP,
    KEYS,
    call_table,
    course,
    help_lines,
    line,
    p99_sentence,
    packed,
    two_lines,
)
from kdissect.live.watch_events import incident_line, text_lines
from kdissect.report.incidents.incident_log import ChangeKind, IncidentChange
from kdissect.spark.watch.batch_job import BatchReport
from kdissect.text import escape

SORTS = ("per_second", "p99_ns", "errors", "unanswered", "bytes")
MOST_INCIDENTS = 6
MOST_NOTICES = 2
LEAST_BODY = 10  # lines below the incidents; on a low terminal half of its lines
MOST_FILTER = 60  # characters
PAGE = 10  # rows
STYLES = {ChangeKind.OPENED: "bold red", ChangeKind.UPDATED: "red", ChangeKind.CLOSED: "dim"}


class WatchScreen:
    """See the module's text."""

    def __init__(self, label: str, slices: MinuteSlice) -> None:
        self._label, self._slices = label, slices
        self._calls = RecentCalls()
        self._shown: BatchReport | None = None
        self._incidents: dict[int, IncidentChange] = {}
        self._notices: deque[str] = deque(maxlen=MOST_NOTICES)
        self._dimension, self._sort = 0, 0
        self._filter, self._types = "", False
        self._chosen = ""  # name of the row, "" for the first one
        self._detail = self._helps = False
        self.paused = self.has_quit = False
        self._actions: Mapping[str, Callable[[], None]] = {
            "p": self._pause,
            "s": self._next_sort,
            "tab": self._next_table,
            "/": self._begin_filter,
            "?": self._help,
            "w": self._slices.write,
            "q": self._quit,
            "enter": self._open,
            "escape": self._back,
        }

    def add(self, report: BatchReport) -> None:
        """Add a batch."""
        self._calls.add(report)
        self._slices.add(report)
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
        if self._types:
            self._type(key)
        elif self._helps:
            self._helps = False
            self.has_quit = key == "q"
        elif key in MOVES:
            self._move(MOVES[key])
        elif key.isdecimal() and 1 <= int(key) <= len(DIMENSIONS):
            self._turn_to(int(key) - 1)
        elif key in self._actions:
            self._actions[key]()

    def draw(self, width: int, height: int) -> RenderableType:
        """Return the screen for a terminal of some columns and lines."""
        lines = list(self._head(width))[: max(height - LEAST_BODY, height // 2)]
        if self._helps:
            body: list[RenderableType] = list(help_lines(width))
        elif self._detail:
            body = list(self._one_row(width, height - len(lines)))
        else:
            body = [self._table(width, max(height - len(lines) - 4, 1))]
        return Group(*lines, *body, line(self._foot(), width))

    def _type(self, key: str) -> None:
        """Change the filter: every character is text, `q` too."""
        if key in ("enter", "escape"):
            self._types = False
            self._filter = "" if key == "escape" else self._filter
        elif key == "backspace":
            self._filter = self._filter[:-1]
        elif len(key) == 1 and len(self._filter) < MOST_FILTER:
            self._filter += key

    def _turn_to(self, dimension: int) -> None:
        self._dimension, self._chosen, self._detail = dimension % len(DIMENSIONS), "", False

    def _next_table(self) -> None:
        self._turn_to(self._dimension + 1)

    def _next_sort(self) -> None:
        self._sort = (self._sort + 1) % len(SORTS)

    def _pause(self) -> None:
        self.paused = not self.paused

    def _quit(self) -> None:
        self.has_quit = True

    def _help(self) -> None:
        self._helps = True

    def _begin_filter(self) -> None:
        self._types, self._detail = True, False

    def _open(self) -> None:
        rows = self._rows()
        if rows:
            self._chosen, self._detail = rows[self._place(rows)].name, True

    def _back(self) -> None:
        if self._detail:
            self._detail = False
        else:
            self._filter = ""

    def _move(self, step: int) -> None:
        rows = self._rows()
        if rows:
            self._chosen = rows[min(max(self._place(rows) + step, 0), len(rows) - 1)].name

    def _rows(self) -> list[CallRow]:
        rows = self._calls.rows(DIMENSIONS[self._dimension], SORTS[self._sort])
        return [row for row in rows if self._filter.lower() in row.name.lower()]

    def _place(self, rows: list[CallRow]) -> int:
        """Return which row is chosen: the first one if the chosen name is gone."""
        return next((number for number, row in enumerate(rows) if row.name == self._chosen), 0)

    def _head(self, width: int) -> Iterable[Text]:
        state = "  paused" if self.paused else ""
        yield line(f"kdissect watch  {escape(self._label)}{state}", width, "bold")
        if self._shown is None:
            yield line("waiting for the first packets", width)
            return
        *_, figures = text_lines(_without_events(self._shown))
        yield from (line(one, width) for one in packed(figures.split(GAP), width))
        yield line(f"rate {course(self._calls.rates, width - 5)}", width, "cyan")
        yield line(f"p99  {course(self._calls.p99s_ns, width - 5)}", width, "yellow")
        for notice in self._notices:
            yield line(f"missing: {escape(notice)}", width, "yellow")
        if self._slices.state:
            yield from two_lines(escape(self._slices.state), width, "green")
        for change in reversed(self._incidents.values()):
            yield from two_lines(incident_line(change), width, STYLES[change.change])

    def _table(self, width: int, most: int) -> RenderableType:
        rows = self._rows()
        place = self._place(rows)
        first = max(0, place - most + 1)
        shown, name = rows[first : first + most], DIMENSIONS[self._dimension]
        if not rows and self._filter:
            return line(f"no {name} has {escape(self._filter)!r} in its name", width)
        return call_table(shown, name, SORTS[self._sort], width, place - first)

    def _one_row(self, width: int, height: int) -> Iterable[RenderableType]:
        """Yield the detail of the chosen row."""
        name = DIMENSIONS[self._dimension]
        detail = self._calls.detail(name, self._chosen)
        yield line(f"{name} {escape(self._chosen) or '-'}", width, "bold")
        yield line(f"rate {course(detail.rates, width - 5)}", width, "cyan")
        yield line(f"p99  {course(detail.p99s_ns, width - 5)}", width, "yellow")
        named = [one for one in self._incidents.values() if _names(one, self._chosen)]
        for change in named:
            yield line(incident_line(change), width, STYLES[change.change])
        if detail.total.p99_ns is not None:
            yield line(p99_sentence(detail.total.p99_ns), width)
        most = max(height - len(named) - 8, 1)
        yield call_table(detail.by_api[:most], "api", "per_second", width)

    def _foot(self) -> str:
        if self._types:
            return f"filter: {escape(self._filter)}_  enter keeps it, esc removes it"
        return f"filter: {escape(self._filter)}  {KEYS}" if self._filter else KEYS


MOVES = {
    "up": -1,
    "k": -1,
    "down": 1,
    "j": 1,
    "page_up": -PAGE,
    "page_down": PAGE,
    "home": -(10**6),
    "end": 10**6,
}
"""Keys that choose another row, and by how many rows."""


def _names(change: IncidentChange, name: str) -> bool:
    """Return whether a row's name stands in the headline of an incident, its subject, or a client it affects.

    It counts as a whole: broker `10.1.0.2:9092` is in `broker 2 (10.1.0.2:9092)`, app-1 is not in app-12.
    """
    known = change.incident
    whole = re.compile(rf"(?<![\w.:-]){re.escape(name)}(?![\w:-]|\.\w)")
    return bool(name) and any(map(whole.search, (known.headline, known.subject, *known.clients)))


def _without_events(report: BatchReport) -> BatchReport:
    return BatchReport(
        report.commit, report.figures, report.files, report.span_ns, report.seconds,
        dropped_packets=report.dropped_packets, skipped_packets=report.skipped_packets,
    )  # fmt: skip
