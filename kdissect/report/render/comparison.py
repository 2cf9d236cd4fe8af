"""A comparison in the terminal: what is certain first, then what came and went, then what nothing can be said of."""

from collections.abc import Sequence

from kdissect.report.aggregate.confidence import CONFIDENCE
from kdissect.report.compare import (
    Change,
    Comparison,
    RowCompared,
    Verdict,
)
from kdissect.report.render.table import (
    BOLD,
    CYAN,
    DIM,
    GREEN,
    RED,
    YELLOW,
    Cell,
    Column,
    Terminal,
    fitted,
    heading,
)
from kdissect.text import format_count, format_duration

STYLES = {Verdict.SLOWER: RED, Verdict.FASTER: GREEN}
COLUMNS = (
    Column("", right=False, shortest=12), Column("calls"), Column("now"), Column("p50"), Column("now"),
    Column("p90", drop=2), Column("now", drop=2), Column("p99"), Column("now"), Column("errors", drop=1), Column("now", drop=1),
    Column("", right=False),
)  # fmt: skip


def render(found: Comparison, terminal: Terminal) -> str:
    """Give the comparison as text that ends with a newline."""
    lines = [
        terminal.paint(f"before  {terminal.captured(found.before)}", BOLD),
        terminal.paint(f"now     {terminal.captured(found.after)}", BOLD),
        "",
        heading(
            f"By {found.by}",
            f"slower and faster are said where {CONFIDENCE:.0%} intervals do not meet",
            terminal,
        ),
        *fitted(COLUMNS, [_row(row, terminal) for row in found.rows], terminal),
    ]
    for title, changes in (
        ("Errors", found.errors), ("Clients", found.clients), ("API versions", found.versions), ("Findings", found.findings)
    ):  # fmt: skip
        lines += ["", heading(title, "what came, went and changed", terminal), *_changes(changes, terminal)]
    few = [row for row in found.rows if row.verdict is Verdict.FEW]
    if few:
        lines += [
            "",
            " " + terminal.paint(f"{len(few)} rows have too few values to compare any percentile", YELLOW),
        ]
    return "\n".join(lines) + "\n"


def _row(row: RowCompared, terminal: Terminal) -> list[Cell]:
    cells = [
        Cell("-" if row.label is None else terminal.captured(row.label), CYAN),
        Cell(format_count(row.calls_before)), Cell(format_count(row.calls_after)),
    ]  # fmt: skip
    for one in row.percentiles:
        cells.append(Cell(terminal.own(format_duration(one.before_ns)), DIM))
        cells.append(Cell(terminal.own(format_duration(one.after_ns)), STYLES.get(one.verdict, "")))
    worse = RED if row.errors_verdict == "more" else ""
    return [
        *cells,
        Cell(format_count(row.errors_before), DIM),
        Cell(format_count(row.errors_after), worse),
        Cell(_said(row)),
    ]


def _said(row: RowCompared) -> str:
    """Say what is certain: `slower p50 p99`, `more errors`; or why nothing is."""
    said = []
    for verdict in (Verdict.SLOWER, Verdict.FASTER):
        names = [one.percentile for one in row.percentiles if one.verdict is verdict]
        said += [f"{verdict} {' '.join(names)}"] if names else []
    said += [f"{row.errors_verdict} errors"] if row.errors_verdict in ("more", "fewer") else []
    return ", ".join(said) or row.verdict


def _changes(changes: Sequence[Change], terminal: Terminal) -> list[str]:
    if not changes:
        return [" " + terminal.paint("nothing", DIM)]
    rows = [
        [
            Cell("new" if change.before is None else "gone" if change.after is None else "changed", DIM),
            Cell(terminal.captured(change.subject), CYAN),
            Cell(terminal.captured(change.before) if change.before else ""),
            Cell(terminal.captured(change.after) if change.after else ""),
        ]
        for change in changes
    ]
    table = (
        Column("", right=False), Column("", right=False, shortest=16), Column("before", right=False, shortest=12), Column("after", right=False, shortest=12)
    )  # fmt: skip
    return fitted(table, rows, terminal)
