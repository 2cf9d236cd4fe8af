"""The profile in the terminal: rows by total service time, each with its latencies, their spread and a histogram of one line."""

from kdissect.report.model import (
    By,
    ProfileRow,
    Summary,
)
from kdissect.report.render.table import (
    CYAN,
    DIM,
    RED,
    Cell,
    Column,
    Terminal,
    fitted,
    heading,
)
from kdissect.report.render.table_cells import (
    count_cell,
    doubtful_name,
    duration_cell,
    histogram_cell,
    histogram_column,
    latency_cells,
    share_cell,
)
from kdissect.text import format_count, format_duration

ROWS_SHOWN = 10
TITLES = {
    By.API: ("API", "versions"),
    By.CLIENT: ("client", "host, software"),
    By.BROKER: ("broker", "node"),
    By.TOPIC: ("topic", "API"),
    By.GROUP: ("group", ""),
    By.CONNECTION: ("connection", "client"),
}
NOTES = {
    By.TOPIC: "an exchange counts for each topic that it names",
    By.GROUP: "only what names a group: a Fetch does not",
}
SHORTEST = {By.CONNECTION: 30}
NAMELESS = {By.API: "(answers only)", By.CLIENT: "(no client id)", By.TOPIC: "(no name)"}


def profile(summary: Summary, terminal: Terminal) -> list[str]:
    """Give the ranking."""
    ranked = summary.profile
    if not summary.totals.exchanges:
        return []
    label, detail = TITLES[ranked.by]
    columns = (
        Column(label, right=False, shortest=SHORTEST.get(ranked.by, 12)), Column(detail, right=False, drop=9, shortest=8), Column("calls"), Column("time", drop=7),
        Column("mean"), Column("p50"), Column("p99"), Column("max"), Column("V/M"), Column("errors"),
        Column("no answer", drop=10), Column("throttled", drop=11), Column("idle", drop=8),
        histogram_column(terminal)._replace(drop=0),
    )  # fmt: skip
    rows = [_row(row, ranked.by, terminal) for row in ranked.rows[: terminal.shown(ROWS_SHOWN)]]
    service = summary.totals.service
    note = (
        f"by total service time, {format_duration(service.sum_ns)} in all"
        if service
        else "no answered exchanges"
    )
    if ranked.by in NOTES:
        note += f"; {NOTES[ranked.by]}"
    lines = [heading("Profile", terminal.own(note), terminal), *fitted(columns, rows, terminal)]
    left = 0 if terminal.whole else len(ranked.rows) + ranked.omitted - ROWS_SHOWN
    more = f"… and {format_count(left)} more" if left > 0 else ""
    return lines + ([" " + terminal.paint(terminal.own(more), DIM)] if more else [])


def _row(row: ProfileRow, by: By, terminal: Terminal) -> list[Cell]:
    label = NAMELESS.get(by, "-") if row.label is None else terminal.captured(row.label)
    mean, p50, _, p99, _, highest = latency_cells(row.service, terminal)
    return [
        Cell(doubtful_name(label, row.doubtful), CYAN),
        Cell("" if row.detail is None else terminal.captured(row.detail), DIM),
        Cell(format_count(row.exchanges)), share_cell(row.time_share), mean, p50, p99, highest,
        duration_cell(row.service.variance_to_mean_ns if row.service else None, terminal),
        count_cell(row.error_responses, RED), count_cell(row.unanswered, RED), count_cell(row.throttled, RED),
        count_cell(row.idle.count if row.idle else 0), histogram_cell(row.service, terminal),
    ]  # fmt: skip
