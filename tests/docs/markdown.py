"""Tables in Markdown."""

from collections.abc import Iterable, Sequence


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; `|` in a cell is escaped.

    >>> print(table(("a", "b"), [("1", "x|y")]))
    | a | b |
    | --- | --- |
    | 1 | x\\|y |
    """
    lines = [titles, ["---"] * len(titles), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in lines)
