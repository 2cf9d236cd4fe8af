"""Text tables: columns below each other, and tables that fit the width of a terminal.

To fit, the least important columns are left out (two neighbours of equal importance together), then long
names lose their middle. `aligned` is for tables that need not fit.
"""

from collections.abc import Sequence
from typing import NamedTuple

from kdissect.report.render.terminal import BOLD, DIM, Terminal
from kdissect.report.wording import counted
from kdissect.text import display_width, format_count, truncate

NOTHING = ("", "-")
"""Texts of empty cells; a column with no other cells is left out if it may be."""

SHORTEST = 4
"""The width of any column if even the shortest columns do not fit."""

WIDE = 110
"""From this width on, columns are two blanks apart."""


class TableColumn(NamedTuple):
    """A column: title, side, `drop` (the highest go first, 0 never), least width (0: its width is fixed)."""

    title: str
    right: bool = True
    drop: int = 0
    shortest: int = 0


class TableCell(NamedTuple):
    """Escaped text in a style."""

    text: str
    style: str = ""


def aligned(
    rows: Sequence[Sequence[str]], *, right: Sequence[bool] = (), gap: int = 2, indent: int = 0
) -> list[str]:
    """Return a line for each row with cells below each other, on the left but for the columns in `right`."""
    widths = [max(map(display_width, column)) for column in zip(*rows, strict=True)]
    sides = [*right, *([False] * (len(widths) - len(right)))]
    return [
        " " * indent
        + (" " * gap).join(_padded(*cell) for cell in zip(row, widths, sides, strict=True)).rstrip()
        for row in rows
    ]


def table_lines(
    table: Sequence[TableColumn], rows: Sequence[Sequence[TableCell]], terminal: Terminal
) -> list[str]:
    """Return the lines of a table, titles first, none wider than the terminal."""
    natural = [
        max(display_width(column.title), *(display_width(row[at].text) for row in rows), 0)
        for at, column in enumerate(table)
    ]
    kept = [
        at
        for at, column in enumerate(table)
        if not (column.drop and all(row[at].text in NOTHING for row in rows))
    ]
    gap = 2 if terminal.width >= WIDE else 1
    kept, widths = _fit(table, natural, kept, terminal.width - 1, gap)
    titles = [
        TableCell(_short_title(table[at].title, width), DIM) for at, width in zip(kept, widths, strict=True)
    ]
    columns = [table[at] for at in kept]
    return [
        _line(cells, columns, widths, gap, terminal)
        for cells in (titles, *([row[at] for at in kept] for row in rows))
    ]


def heading(title: str, note: str, terminal: Terminal) -> str:
    """Return the line that opens a section, as wide as the terminal."""
    room = terminal.width - display_width(title) - 3
    note = truncate(f"{note} " if note else "", room, terminal.ellipsis)
    rule = terminal.show("─") * max(room - display_width(note), 0)
    return f"{terminal.paint(title, BOLD)}  {terminal.paint(note + rule, DIM)}"


def omitted_lines(total: int, shown: int, noun: str, terminal: Terminal) -> list[str]:
    """Return a line that says how many rows a table leaves out, or none."""
    left = 0 if terminal.whole else total - shown
    if left <= 0:
        return []
    more = counted(left, f"more {noun}") if noun else f"{format_count(left)} more"
    return [" " + terminal.paint(terminal.show(f"… and {more}"), DIM)]


def phrase_lines(label: str, phrases: Sequence[TableCell], terminal: Terminal, indent: int = 13) -> list[str]:
    """Return phrases joined by dots after a label; lines are broken between phrases and fit the width."""
    dot = terminal.show(" · ")
    room = terminal.width - indent - 1
    lines: list[str] = []
    used = 0
    for phrase in phrases:
        text = truncate(phrase.text, room, terminal.ellipsis)
        painted, width = terminal.paint(text, phrase.style), display_width(text)
        if lines and used + len(dot) + width <= room:
            lines[-1] += dot + painted
            used += len(dot) + width
        else:
            lines.append(painted)
            used = width
    first = " " + terminal.paint(label.ljust(indent - 1), DIM) + (lines[0] if lines else "")
    return [first.rstrip(), *(" " * indent + line for line in lines[1:])]


def _fit(
    table: Sequence[TableColumn], natural: Sequence[int], kept: list[int], width: int, gap: int
) -> tuple[list[int], list[int]]:
    """Return which columns fit a width, and the width of each."""
    while True:
        room, wanted = width - gap * (len(kept) - 1), [natural[at] for at in kept]
        widths = _shrunk(wanted, [table[at].shortest for at in kept], room)
        spare = [at for at in kept if table[at].drop]
        if widths is not None:
            return kept, widths
        if not spare:
            return kept, _shrunk(wanted, [SHORTEST] * len(kept), room) or [SHORTEST] * len(kept)
        least = max(spare, key=lambda at: (table[at].drop, at))
        kept = [at for at in kept if at != least and (at + 1 != least or table[at].drop != table[least].drop)]


def _shrunk(natural: list[int], shortest: list[int], room: int) -> list[int] | None:
    """Return widths whose sum fits the room, taken from the widest columns; None if there are none."""
    widths = list(natural)
    while sum(widths) > room:
        longest = max(
            range(len(widths)),
            key=lambda at: (widths[at] - shortest[at]) if 0 < shortest[at] < widths[at] else 0,
        )
        if not 0 < shortest[longest] < widths[longest]:
            return None
        widths[longest] -= 1
    return widths


def _short_title(title: str, width: int) -> str:
    """Return a title, or its part before the first comma if there is no room for all of it."""
    return title if display_width(title) <= width else title.partition(",")[0]


def _line(
    cells: Sequence[TableCell],
    table: Sequence[TableColumn],
    widths: Sequence[int],
    gap: int,
    terminal: Terminal,
) -> str:
    parts = []
    for cell, column, width in zip(cells, table, widths, strict=True):
        text = truncate(cell.text, width, terminal.ellipsis)
        parts.append(_padded(text, width, column.right, terminal.paint(text, cell.style)))
    return (" " + (" " * gap).join(parts)).rstrip()


def _padded(text: str, width: int, right: bool, painted: str | None = None) -> str:
    """Return text, or `painted` in its place, with the blanks that text needs to fill the width."""
    padding = " " * (width - display_width(text))
    shown = text if painted is None else painted
    return padding + shown if right else shown + padding
