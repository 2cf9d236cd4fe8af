"""Parts of the screen of a watch: lines that fit, bars, tables of calls, the help."""

from collections.abc import Callable, Iterable, Sequence

from rich.table import Table
from rich.text import Text

from kdissect.live.recent_calls import BEYOND_NS, CallRow
from kdissect.text import display_width, escape, fold, format_count, format_duration, format_size, truncate

BARS = "▁▂▃▄▅▆▇█"
ELLIPSIS = "…"
GAP = "  "  # between the figures of a line
LEAST_NAME = 16  # columns of a table's names
CELLS: dict[str, Callable[[CallRow], str]] = {
    "per_second": lambda row: f"{row.per_second:,.1f}",
    "p50_ns": lambda row: _at_most(row.p50_ns),
    "p99_ns": lambda row: _at_most(row.p99_ns),
    "errors": lambda row: format_count(row.errors),
    "unanswered": lambda row: "-" if row.unanswered is None else format_count(row.unanswered),
    "bytes": lambda row: format_size(row.bytes),
}
TITLES = {"per_second": "per second", "p50_ns": "p50", "p99_ns": "p99"}
KEYS = "q quit  ? keys  / filter  enter detail  tab table  s sort  p pause  w slice"
HELP = (
    ("up, down, j, k", "choose a row; page up, page down, home and end go further"),
    ("enter", "show the row: its course, its APIs, incidents that name it"),
    ("esc", "back to the table; without a detail: remove the filter"),
    ("/", "filter rows by a part of their name; enter keeps it, esc removes it"),
    ("tab, 1 to 6", "next table; API, client, broker, group, topic, connection"),
    ("s", "sort by the next column"),
    ("p", "pause; batches count meanwhile"),
    ("w", "write the packets of the last minute to slice-….pcapng in this directory"),
    ("?", "this help"),
    ("q", "quit, with the report of the last ten minutes; Ctrl-C quits without it"),
)


def line(text: str, width: int, style: str = "") -> Text:
    """Return a text as one line of a width."""
    shown = text if display_width(text) <= width else truncate(text, width, ELLIPSIS)
    return Text(shown, style=style, no_wrap=True, end="\n")


def two_lines(text: str, width: int, style: str = "") -> Iterable[Text]:
    """Yield a text in two lines of a width at most, broken at blanks.

    >>> [shown.plain for shown in two_lines("broker 2 sent nothing for 4.1 s", 12)]
    ['broker 2', 'sent…']
    """
    first, *rest = fold(text, width)
    yield line(first, width, style)
    if rest:
        yield line(rest[0] if len(rest) == 1 else fold(rest[0], width - 1)[0] + ELLIPSIS, width, style)


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


def call_table(
    rows: Sequence[CallRow], title: str, sort: str, width: int, chosen: int | None = None
) -> Table:
    """Return rows as a table; the `chosen` one is marked.

    Names keep LEAST_NAME columns of a narrow terminal: the last figures are left out, but not the sorted one.
    """
    columns = {
        name: [TITLES.get(name, name) + ("▼" if name == sort else ""), *map(cell, rows)]
        for name, cell in CELLS.items()
    }
    widths = {name: len(GAP) + max(map(display_width, texts)) for name, texts in columns.items()}
    while len(widths) > 1 and sum(widths.values()) > width - LEAST_NAME:
        del widths[next(name for name in reversed(widths) if name != sort)]
    room = max(width - sum(widths.values()), 1)
    table = Table(box=None, width=width, pad_edge=False, padding=(0, len(GAP), 0, 0))
    table.add_column(title, ratio=1, no_wrap=True)
    for name in widths:
        table.add_column(columns[name][0], justify="right", no_wrap=True)
    for number, row in enumerate(rows):
        shown = truncate(escape(row.name) or "-", room, ELLIPSIS)
        cells = (Text(columns[column][number + 1]) for column in widths)
        table.add_row(Text(shown), *cells, style="reverse" if number == chosen else "")
    return table


def help_lines(width: int) -> list[Text]:
    """Return what each key does."""
    return [line(f"{keys:<16}{meaning}", width) for keys, meaning in HELP]


def p99_sentence(ns: int) -> str:
    """Return what the bound of a p99 means."""
    if ns == BEYOND_NS:
        return f"more than 1 of 100 took longer than {format_duration(ns)}"
    return f"99 of 100 took {format_duration(ns)} or less"


def _at_most(ns: int | None) -> str:
    if ns is None:
        return "-"
    return f">{format_duration(ns)}" if ns == BEYOND_NS else f"≤{format_duration(ns)}"
