"""Abilities of a terminal: its width, colours and characters, and how much of a report is wanted."""

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TextIO

from kdissect.text import escape, format_clock

NARROWEST, WIDEST = 60, 200
UNKNOWN_WIDTH = 120
RESET = "\x1b[0m"
BOLD, DIM, RED, YELLOW, GREEN, CYAN = "1", "2", "31", "33", "32", "36"
"""Styles: SGR numbers (ECMA-48), which may be joined by semicolons."""

SPECIAL = "µ·…→─✓▁█×"
ASCII = str.maketrans({"µ": "u", "·": "|", "…": "..", "→": ">", "–": "-", "─": "-", "✓": "ok", "×": "x"})
"""ASCII in place of the characters that reports use beyond it."""


@dataclass(frozen=True, slots=True)
class Terminal:
    """The properties of a terminal, and how much of a report it is to show."""

    width: int = 80
    colour: bool = False
    unicode: bool = True
    full: bool = True
    """Every section, not just what fits one screen."""
    whole: bool = False
    """All rows of every table, not just the first few."""
    dated: bool = False
    """Times with their date, since they are of more than one day."""

    def clock(self, time_ns: int | None) -> str:
        """Return the time of day in UTC."""
        return format_clock(time_ns, date=self.dated)

    def row_limit(self, rows: int) -> int | None:
        """Return how many rows of a table to show, None for all."""
        return None if self.whole else rows

    def paint(self, text: str, style: str) -> str:
        """Return text in a style."""
        return f"\x1b[{style}m{text}{RESET}" if self.colour and style and text.strip() else text

    def show(self, text: str) -> str:
        """Return text of the report itself in characters that the terminal has."""
        return text if self.unicode else text.translate(ASCII)

    def escape(self, text: str | None) -> str:
        """Return text from the capture, control characters escaped; a dash for None, quotes for no text."""
        if text is None:
            return "-"
        return escape(text, ascii_only=not self.unicode) or '""'

    def sentence(self, text: str) -> str:
        """Return a sentence of the report, which may hold names from the capture, as `escape` does.

        A sentence has no words of its own that `escape` changes.
        """
        return escape(self.show(text), ascii_only=not self.unicode)

    @property
    def ellipsis(self) -> str:
        """Return what stands for the middle of a name that is too long."""
        return self.show("…")


def terminal_of(
    stream: TextIO, environment: Mapping[str, str] = os.environ, *, full: bool = True, color: str = "auto"
) -> Terminal:
    """Return the terminal behind a stream: its width, its colours, UTF-8 or ASCII.

    `color` is `always`, `never`, or `auto`: colours on a terminal, unless NO_COLOR or TERM=dumb is set.
    """
    is_terminal = stream.isatty()
    columns = UNKNOWN_WIDTH
    if is_terminal or environment.get("COLUMNS"):
        columns = shutil.get_terminal_size((100, 24)).columns
    plain = bool(environment.get("NO_COLOR")) or environment.get("TERM") == "dumb"
    return Terminal(
        width=min(max(columns, NARROWEST), WIDEST),
        colour=color == "always" or (color == "auto" and is_terminal and not plain),
        unicode=_can_show(stream, SPECIAL),
        full=full,
    )


def _can_show(stream: TextIO, characters: str) -> bool:
    try:
        characters.encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
