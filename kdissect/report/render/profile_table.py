"""The profile in the terminal: rows by total service time, each with its latencies, their spread and a histogram of one line."""

from kdissect.report.model.summary import (
    ProfileBy,
    ProfileRow,
    Summary,
)
from kdissect.report.render.table import (
    CYAN,
    DIM,
    RED,
    TableCell,
    TableColumn,
    Terminal,
    heading,
    table_lines,
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
    ProfileBy.API: ("API", "versions"),
    ProfileBy.CLIENT: ("client", "host, software"),
    ProfileBy.BROKER: ("broker", "node"),
    ProfileBy.TOPIC: ("topic", "API"),
    ProfileBy.GROUP: ("group", ""),
    ProfileBy.CONNECTION: ("connection", "client"),
}
NOTES = {
    ProfileBy.TOPIC: "an exchange counts for each topic that it names",
    ProfileBy.GROUP: "only what names a group: a Fetch does not",
}
SHORTEST = {ProfileBy.CONNECTION: 30}
NAMELESS = {ProfileBy.API: "(answers only)", ProfileBy.CLIENT: "(no client id)", ProfileBy.TOPIC: "(no name)"}


def profile(summary: Summary, terminal: Terminal) -> list[str]:
    """Give the ranking."""
    ranked = summary.profile
    if not summary.totals.exchanges:
        return []
    label, detail = TITLES[ranked.by]
    columns = (
        TableColumn(label, right=False, shortest=SHORTEST.get(ranked.by, 12)), TableColumn(detail, right=False, drop=9, shortest=8), TableColumn("calls"), TableColumn("time", drop=7),
        TableColumn("mean"), TableColumn("p50"), TableColumn("p99"), TableColumn("max"), TableColumn("V/M"), TableColumn("errors"),
        TableColumn("no answer", drop=10), TableColumn("throttled", drop=11), TableColumn("idle", drop=8),
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
    lines = [heading("Profile", terminal.own(note), terminal), *table_lines(columns, rows, terminal)]
    left = 0 if terminal.whole else len(ranked.rows) + ranked.omitted - ROWS_SHOWN
    more = f"… and {format_count(left)} more" if left > 0 else ""
    return lines + ([" " + terminal.paint(terminal.own(more), DIM)] if more else [])


def _row(row: ProfileRow, by: ProfileBy, terminal: Terminal) -> list[TableCell]:
    label = NAMELESS.get(by, "-") if row.label is None else terminal.captured(row.label)
    mean, p50, _, p99, _, highest = latency_cells(row.service, terminal)
    return [
        TableCell(doubtful_name(label, row.doubtful), CYAN),
        TableCell("" if row.detail is None else terminal.captured(row.detail), DIM),
        TableCell(format_count(row.exchanges)), share_cell(row.time_share), mean, p50, p99, highest,
        duration_cell(row.service.variance_to_mean_ns if row.service else None, terminal),
        count_cell(row.error_responses, RED), count_cell(row.unanswered, RED), count_cell(row.throttled, RED),
        count_cell(row.idle.count if row.idle else 0), histogram_cell(row.service, terminal),
    ]  # fmt: skip
