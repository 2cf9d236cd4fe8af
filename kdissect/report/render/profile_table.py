"""The profile as a table: rows by service time, each with its latencies and a histogram."""

from kdissect.report.model.summary import ProfileBy, ProfileRow, Summary
from kdissect.report.render.cells import (
    count_cell,
    duration_cell,
    histogram_cell,
    histogram_column,
    latency_cells,
    name_cell,
    share_cell,
)
from kdissect.report.render.table import (
    TableCell,
    TableColumn,
    heading,
    omitted_lines,
    table_lines,
)
from kdissect.report.render.terminal import DIM, RED, Terminal
from kdissect.report.wording import NO_CLIENT_ID
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
    ProfileBy.GROUP: "only requests that name a group, which a Fetch does not",
}
SHORTEST_LABEL = {ProfileBy.CONNECTION: 30}
NAMELESS = {ProfileBy.API: "(no request)", ProfileBy.CLIENT: NO_CLIENT_ID, ProfileBy.TOPIC: "(no name)"}


def profile(summary: Summary, terminal: Terminal) -> list[str]:
    """Return the lines of the profile; none without exchanges."""
    ranked = summary.profile
    if not summary.totals.exchanges:
        return []
    label, detail = TITLES[ranked.by]
    columns = (
        TableColumn(label, right=False, shortest=SHORTEST_LABEL.get(ranked.by, 12)),
        TableColumn(detail, right=False, drop=9, shortest=8),
        TableColumn("calls"),
        TableColumn("time", drop=7),
        TableColumn("mean"),
        TableColumn("p50"),
        TableColumn("p99"),
        TableColumn("max"),
        TableColumn("V/M"),
        TableColumn("errors"),
        TableColumn("no resp.", drop=10),
        TableColumn("throttled", drop=11),
        TableColumn("idle", drop=8),
        histogram_column(terminal)._replace(drop=0),
    )
    rows = [_row(row, ranked.by, terminal) for row in ranked.rows[: terminal.row_limit(ROWS_SHOWN)]]
    service = summary.totals.service
    note = "no exchanges with a response"
    if service:
        note = f"by total service time, {format_duration(service.sum_ns)} in all"
    if ranked.by in NOTES:
        note += f"; {NOTES[ranked.by]}"
    return [
        heading("Profile", terminal.show(note), terminal),
        *table_lines(columns, rows, terminal),
        *omitted_lines(len(ranked.rows) + ranked.omitted, ROWS_SHOWN, "", terminal),
    ]


def _row(row: ProfileRow, by: ProfileBy, terminal: Terminal) -> list[TableCell]:
    label = NAMELESS.get(by, "-") if row.label is None else terminal.escape(row.label)
    mean, p50, _, p99, _, highest = latency_cells(row.service, terminal)
    return [
        name_cell(label, row.doubtful),
        TableCell("" if row.detail is None else terminal.escape(row.detail), DIM),
        TableCell(format_count(row.exchanges)),
        share_cell(row.time_share),
        mean,
        p50,
        p99,
        highest,
        duration_cell(row.service.variance_to_mean_ns if row.service else None, terminal),
        count_cell(row.error_responses, RED),
        count_cell(row.unanswered, RED),
        count_cell(row.throttled, RED),
        count_cell(row.idle.count if row.idle else 0),
        histogram_cell(row.service, terminal),
    ]
