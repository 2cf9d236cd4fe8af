"""A comparison in the terminal: what is certain first, then what came and went, then what nothing can be said of."""

from collections.abc import Sequence

from kdissect.report.aggregate.confidence import CONFIDENCE
from kdissect.report.build.compare import (
    Change,
    Comparison,
    ComparisonRow,
    Difference,
)
from kdissect.report.render.table import (
    BOLD,
    CYAN,
    DIM,
    GREEN,
    RED,
    YELLOW,
    TableCell,
    TableColumn,
    Terminal,
    heading,
    table_lines,
)
from kdissect.text import format_count, format_duration

STYLES = {Difference.SLOWER: RED, Difference.FASTER: GREEN}
COLUMNS = (
    TableColumn("", right=False, shortest=12), TableColumn("calls"), TableColumn("now"), TableColumn("p50"), TableColumn("now"),
    TableColumn("p90", drop=2), TableColumn("now", drop=2), TableColumn("p99"), TableColumn("now"), TableColumn("errors", drop=1), TableColumn("now", drop=1),
    TableColumn("", right=False),
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
        *table_lines(COLUMNS, [_row(row, terminal) for row in found.rows], terminal),
    ]
    for title, changes in (
        ("Errors", found.errors), ("Clients", found.clients), ("API versions", found.versions), ("Findings", found.findings)
    ):  # fmt: skip
        lines += ["", heading(title, "what came, went and changed", terminal), *_changes(changes, terminal)]
    few = [row for row in found.rows if row.verdict is Difference.FEW]
    if few:
        lines += [
            "",
            " " + terminal.paint(f"{len(few)} rows have too few values to compare any percentile", YELLOW),
        ]
    return "\n".join(lines) + "\n"


def _row(row: ComparisonRow, terminal: Terminal) -> list[TableCell]:
    cells = [
        TableCell("-" if row.label is None else terminal.captured(row.label), CYAN),
        TableCell(format_count(row.calls_before)), TableCell(format_count(row.calls_after)),
    ]  # fmt: skip
    for one in row.percentiles:
        cells.append(TableCell(terminal.own(format_duration(one.before_ns)), DIM))
        cells.append(TableCell(terminal.own(format_duration(one.after_ns)), STYLES.get(one.verdict, "")))
    worse = RED if row.errors_verdict == "more" else ""
    return [
        *cells,
        TableCell(format_count(row.errors_before), DIM),
        TableCell(format_count(row.errors_after), worse),
        TableCell(_said(row)),
    ]


def _said(row: ComparisonRow) -> str:
    """Say what is certain: `slower p50 p99`, `more errors`; or why nothing is."""
    said = []
    for verdict in (Difference.SLOWER, Difference.FASTER):
        names = [one.percentile for one in row.percentiles if one.verdict is verdict]
        said += [f"{verdict} {' '.join(names)}"] if names else []
    said += [f"{row.errors_verdict} errors"] if row.errors_verdict in ("more", "fewer") else []
    return ", ".join(said) or row.verdict


def _changes(changes: Sequence[Change], terminal: Terminal) -> list[str]:
    if not changes:
        return [" " + terminal.paint("nothing", DIM)]
    rows = [
        [
            TableCell("new" if change.before is None else "gone" if change.after is None else "changed", DIM),
            TableCell(terminal.captured(change.subject), CYAN),
            TableCell(terminal.captured(change.before) if change.before else ""),
            TableCell(terminal.captured(change.after) if change.after else ""),
        ]
        for change in changes
    ]
    table = (
        TableColumn("", right=False), TableColumn("", right=False, shortest=16), TableColumn("before", right=False, shortest=12), TableColumn("after", right=False, shortest=12)
    )  # fmt: skip
    return table_lines(table, rows, terminal)
