"""A comparison as text: percentiles and errors row by row, then what is new, gone or changed."""

from collections.abc import Sequence

from kdissect.report.aggregate.confidence import CONFIDENCE
from kdissect.report.model.comparison import (
    Change,
    Comparison,
    ComparisonRow,
    Difference,
    PercentileComparison,
)
from kdissect.report.render.table import (
    TableCell,
    TableColumn,
    heading,
    table_lines,
)
from kdissect.report.render.terminal import BOLD, CYAN, DIM, GREEN, RED, YELLOW, Terminal
from kdissect.report.wording import counted
from kdissect.text import format_count, format_duration

STYLES = {
    Difference.SLOWER: RED,
    Difference.LIKELY_SLOWER: YELLOW,
    Difference.FASTER: GREEN,
    Difference.LIKELY_FASTER: DIM,
}
LARGE = 2.0
"""A percentile that changed by so many times is written with that factor."""
COLUMNS = (
    TableColumn("", right=False, shortest=12),
    TableColumn("calls"),
    TableColumn("now"),
    TableColumn("p50"),
    TableColumn("now"),
    TableColumn("p90", drop=2),
    TableColumn("now", drop=2),
    TableColumn("p99"),
    TableColumn("now"),
    TableColumn("errors", drop=1),
    TableColumn("now", drop=1),
    TableColumn("", right=False),
)
DETAIL = TableColumn("", right=False, shortest=20)
"""Details that tell rows of one label apart: the API of a topic, host and software of a client."""

CHANGE_COLUMNS = (
    TableColumn("", right=False),
    TableColumn("", right=False, shortest=16),
    TableColumn("before", right=False, shortest=12),
    TableColumn("after", right=False, shortest=12),
)


def render(comparison: Comparison, terminal: Terminal) -> str:
    """Return the comparison as text that ends with a newline."""
    note = f"slower or faster: {CONFIDENCE:.0%} confidence intervals do not overlap"
    named = len({row.label for row in comparison.rows}) == len(comparison.rows) and comparison.by != "topic"
    columns = COLUMNS if named else (COLUMNS[0], DETAIL, *COLUMNS[1:])
    rows = [_row(row, terminal, with_detail=not named) for row in comparison.rows]
    lines = [
        terminal.paint(f"before  {terminal.escape(comparison.before)}", BOLD),
        terminal.paint(f"now     {terminal.escape(comparison.after)}", BOLD),
        "",
        heading(f"By {terminal.escape(comparison.by)}", note, terminal),
        *table_lines(columns, rows, terminal),
    ]
    for title, changes in (
        ("Errors", comparison.errors),
        ("Clients", comparison.clients),
        ("API versions", comparison.versions),
        ("Findings", comparison.findings),
    ):
        lines += ["", heading(title, "new, gone and changed", terminal), *_changes(changes, terminal)]
    few = sum(row.verdict is Difference.FEW for row in comparison.rows)
    if few:
        verb = "has" if few == 1 else "have"
        text = f"{counted(few, 'row')} {verb} too few values to compare any percentile"
        lines += ["", " " + terminal.paint(text, YELLOW)]
    return "\n".join(lines) + "\n"


def _row(row: ComparisonRow, terminal: Terminal, *, with_detail: bool) -> list[TableCell]:
    detail = [TableCell(terminal.escape(row.detail), DIM)] if with_detail else []
    cells = [
        TableCell("-" if row.label is None else terminal.escape(row.label), CYAN),
        *detail,
        TableCell(format_count(row.calls_before)),
        TableCell(format_count(row.calls_after)),
    ]
    for one in row.percentiles:
        cells.append(TableCell(terminal.show(format_duration(one.before_ns)), DIM))
        cells.append(TableCell(terminal.show(format_duration(one.after_ns)), STYLES.get(one.verdict, "")))
    return [
        *cells,
        TableCell(format_count(row.errors_before), DIM),
        TableCell(format_count(row.errors_after), RED if row.errors_verdict == "more" else ""),
        TableCell(terminal.show(_conclusion(row))),
    ]


def _conclusion(row: ComparisonRow) -> str:
    """Return what changed, the largest change first: `likely slower p99 (×18), faster p50`."""
    changes = []
    for verdict in STYLES:
        changed = [one for one in row.percentiles if one.verdict is verdict]
        if changed:
            most = max(map(_factor, changed))
            names = " ".join(one.percentile for one in changed)
            changes.append((most, f"{verdict} {names}" + (f" (×{most:.3g})" if most >= LARGE else "")))
    facts = [words for _, words in sorted(changes, key=lambda change: -change[0])]
    facts += [f"{row.errors_verdict} errors"] if row.errors_verdict in ("more", "fewer") else []
    return ", ".join(facts) or row.verdict


def _factor(one: PercentileComparison) -> float:
    """Return how many times as long the slower of both is."""
    low, high = sorted((one.before_ns or 0, one.after_ns or 0))
    return high / max(low, 1)


def _changes(changes: Sequence[Change], terminal: Terminal) -> list[str]:
    if not changes:
        return [" " + terminal.paint("no changes", DIM)]
    rows = [
        [
            TableCell("new" if change.before is None else "gone" if change.after is None else "changed", DIM),
            TableCell(terminal.escape(change.subject), CYAN),
            TableCell(terminal.escape(change.before) if change.before else ""),
            TableCell(terminal.escape(change.after) if change.after else ""),
        ]
        for change in changes
    ]
    return table_lines(CHANGE_COLUMNS, rows, terminal)
