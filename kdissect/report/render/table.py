"""Tables that fit: columns are measured, the least important ones dropped (two side by side that are equally important together), long names cut, until a line fits the width."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kdissect.text import (
    display_width,
    escape,
    format_clock,
    truncate,
)

RESET = "\x1b[0m"


@dataclass(frozen=True, slots=True)
class Terminal:
    """What the reader's side can show, columns, colours and characters beyond ASCII, and how much is wanted."""

    width: int = 80
    colour: bool = False
    unicode: bool = True
    full: bool = True
    """Every section, not just what fits one screen."""
    whole: bool = False
    """All rows of every table, not just the first few."""
    dated: bool = False
    """Times of day with their date: what is shown happened on more than one."""

    def clock(self, time_ns: int | None) -> str:
        """Give the time of day in UTC."""
        return format_clock(time_ns, date=self.dated)

    def shown(self, rows: int) -> int | None:
        """Give how many rows of a table to show, None for all."""
        return None if self.whole else rows

    def paint(self, text: str, style: str) -> str:
        """Put text into a style (SGR numbers such as 1;31)."""
        return f"\x1b[{style}m{text}{RESET}" if self.colour and style and text.strip() else text

    def own(self, text: str) -> str:
        """Give the report's own words in characters the terminal has."""
        return text if self.unicode else text.translate(ASCII)

    def captured(self, text: str | None) -> str:
        """Give text from the capture, escaped; a dash for None, quotes for nothing."""
        if text is None:
            return "-"
        return escape(text, ascii_only=not self.unicode) or '""'

    @property
    def ellipsis(self) -> str:
        """What stands for the middle of a name that is too long."""
        return self.own("…")


ASCII = str.maketrans(
    {"µ": "u", "·": "|", "…": "..", "→": ">", "–": "-", "─": "-", "✓": "ok"}
)  # fmt: skip

BOLD, DIM, RED, YELLOW, GREEN, CYAN = "1", "2", "31", "33", "32", "36"


class TableColumn(NamedTuple):
    """A column: its title, its side, how soon it goes when room is short (0 never), and how far it may shrink (0 not)."""

    title: str
    right: bool = True
    drop: int = 0
    shortest: int = 0


NOTHING = ("", "-")
"""Cells that say nothing; a column of nothing else is not shown if it may go."""

SHORTEST = 4
"""What any column is cut to when everything else has been tried."""


class TableCell(NamedTuple):
    """Escaped text in a style."""

    text: str
    style: str = ""


def table_lines(
    table: Sequence[TableColumn], rows: Sequence[Sequence[TableCell]], terminal: Terminal
) -> list[str]:
    """Give the lines of a table, title line first, none wider than the terminal."""
    kept = [
        at
        for at, column in enumerate(table)
        if not (column.drop and all(row[at].text in NOTHING for row in rows))
    ]
    natural = [
        max(display_width(column.title), *(display_width(row[at].text) for row in rows), 0)
        for at, column in enumerate(table)
    ]
    gap = 2 if terminal.width >= 110 else 1
    while True:
        room, wanted = terminal.width - 1 - gap * (len(kept) - 1), [natural[at] for at in kept]
        widths = _shrunk(wanted, [table[at].shortest for at in kept], room)
        spare = [at for at in kept if table[at].drop]
        if widths is not None or not spare:
            break
        least = max(spare, key=lambda at: (table[at].drop, at))
        kept = [at for at in kept if at != least and (at + 1 != least or table[at].drop != table[least].drop)]
    widths = widths or _shrunk(wanted, [SHORTEST] * len(kept), room) or [SHORTEST] * len(kept)
    lines = [
        _line(
            [TableCell(_title(table[at].title, width), DIM) for at, width in zip(kept, widths, strict=True)],
            [table[at] for at in kept],
            widths,
            gap,
            terminal,
        )
    ]
    return lines + [
        _line([row[at] for at in kept], [table[at] for at in kept], widths, gap, terminal) for row in rows
    ]


def _title(title: str, width: int) -> str:
    """Give as many of a title's words, set apart by commas, as have room."""
    return title if display_width(title) <= width else title.partition(",")[0]


def _shrunk(natural: list[int], shortest: list[int], room: int) -> list[int] | None:
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
        padding = " " * (width - display_width(text))
        painted = terminal.paint(text, cell.style)
        parts.append(padding + painted if column.right else painted + padding)
    return (" " + (" " * gap).join(parts)).rstrip()


def heading(title: str, note: str, terminal: Terminal) -> str:
    """Give the line that opens a section, as wide as the terminal."""
    room = terminal.width - display_width(title) - 3
    note = truncate(f"{note} " if note else "", room, terminal.ellipsis)
    rule = terminal.own("─") * max(room - display_width(note), 0)
    return f"{terminal.paint(title, BOLD)}  {terminal.paint(note + rule, DIM)}"


def phrase_lines(label: str, phrases: Sequence[TableCell], terminal: Terminal, indent: int = 13) -> list[str]:
    """Give phrases joined by dots under a label, broken between phrases, each line within the width."""
    dot = terminal.own(" · ")
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
