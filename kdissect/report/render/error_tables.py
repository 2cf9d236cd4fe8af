"""Tables of what went wrong, with first locations: errors, unanswered requests, throttling, faults."""

from kdissect.report.model.findings import Location
from kdissect.report.model.summary import Summary
from kdissect.report.render.cells import address_text, api_text, client_text, count_cell
from kdissect.report.render.table import (
    TableCell,
    TableColumn,
    heading,
    omitted_lines,
    table_lines,
)
from kdissect.report.render.terminal import CYAN, DIM, RED, YELLOW, Terminal
from kdissect.text import format_count, format_duration

ERRORS_SHOWN, UNANSWERED_SHOWN, THROTTLED_SHOWN, FAULTS_SHOWN = 10, 6, 5, 4
NS_PER_MS = 10**6

LOCATION_COLUMNS = (
    TableColumn("first seen", right=False),
    TableColumn("packet"),
    TableColumn("file", right=False, drop=9, shortest=12),
    TableColumn("topic", right=False, drop=2, shortest=8),
    TableColumn("client", right=False, drop=3, shortest=8),
    TableColumn("connection", right=False, drop=4, shortest=24),
)
ERROR_COLUMNS = (
    TableColumn("error", right=False, shortest=26),
    TableColumn("API", right=False, shortest=12),
    TableColumn("responses"),
    TableColumn("partitions", drop=8),
    *LOCATION_COLUMNS,
)
UNANSWERED_COLUMNS = (
    TableColumn("API", right=False, shortest=14),
    TableColumn("requests"),
    TableColumn("closed"),
    TableColumn("open"),
    TableColumn("lost?"),
    *LOCATION_COLUMNS,
)
THROTTLING_COLUMNS = (
    TableColumn("client", right=False, shortest=12),
    TableColumn("host", right=False, drop=1, shortest=11),
    TableColumn("responses"),
    TableColumn("longest"),
    TableColumn("in all"),
)
FAULT_COLUMNS = (
    TableColumn("API", right=False, shortest=14),
    TableColumn("messages"),
    TableColumn("for example", right=False, shortest=44),
    LOCATION_COLUMNS[0]._replace(drop=1),
    LOCATION_COLUMNS[1],
)


def location_cells(
    location: Location | None, terminal: Terminal, *, request: bool = False, file: bool = True
) -> list[TableCell]:
    """Return the cells of `LOCATION_COLUMNS`, with the packet of the response or, if wanted, the request."""
    if location is None:
        return [TableCell("-", DIM)] * len(LOCATION_COLUMNS)
    is_request = request or location.response_packet is None
    packet = location.request_packet if is_request else location.response_packet
    topic = terminal.escape(location.topic)
    if location.partition is not None:
        topic += f"-{location.partition}"
    return [
        TableCell(terminal.clock(location.time_ns)),
        TableCell("-" if packet is None else f"#{packet}"),
        TableCell(terminal.escape(location.capture_file) if file else ""),
        TableCell(topic),
        TableCell(terminal.escape(location.client_id)),
        TableCell(_connection(location, terminal)),
    ]


def _connection(location: Location, terminal: Terminal) -> str:
    if location.client_host is None:
        return "-"
    client = address_text(location.client_host, location.client_port, terminal)
    server = address_text(location.server_host, location.server_port, terminal)
    return client + terminal.show(" → ") + server


def errors(summary: Summary, terminal: Terminal) -> list[str]:
    """Return the lines of error codes by API; none without errors."""
    if not summary.errors:
        return []
    several_files = len(summary.capture.files) > 1
    rows = [
        [
            TableCell(terminal.escape(row.error_name or f"code {row.error_code}"), RED),
            TableCell(api_text(row.api_name, None, row.api_key, terminal)),
            TableCell(format_count(row.exchanges)),
            count_cell(row.partitions),
            *location_cells(row.first, terminal, file=several_files),
        ]
        for row in summary.errors[: terminal.row_limit(ERRORS_SHOWN)]
    ]
    return [
        heading("Errors", "by responses that carry them", terminal),
        *table_lines(ERROR_COLUMNS, rows, terminal),
        *omitted_lines(len(summary.errors), ERRORS_SHOWN, "error", terminal),
    ]


def unanswered(summary: Summary, terminal: Terminal) -> list[str]:
    """Return the lines of requests without a response, and why they may have none."""
    silent = [row for row in summary.apis if row.figures.unanswered]
    if not silent:
        return []
    silent.sort(key=lambda row: -row.figures.unanswered)
    several_files = len(summary.capture.files) > 1
    rows = [
        [
            TableCell(api_text(row.api_name, row.api_version, row.api_key, terminal), CYAN),
            TableCell(format_count(row.figures.unanswered)),
            count_cell(row.figures.unanswered_closed, RED),
            count_cell(row.figures.unanswered_open),
            count_cell(row.figures.unanswered_lossy, YELLOW),
            *location_cells(row.first_unanswered, terminal, request=True, file=several_files),
        ]
        for row in silent[: terminal.row_limit(UNANSWERED_SHOWN)]
    ]
    return [
        heading("Unanswered", "lost?: the capture misses bytes, a response may have come", terminal),
        *table_lines(UNANSWERED_COLUMNS, rows, terminal),
        *omitted_lines(len(silent), UNANSWERED_SHOWN, "API version", terminal),
    ]


def throttling(summary: Summary, terminal: Terminal) -> list[str]:
    """Return the lines of clients that brokers throttled; none without throttling."""
    slowed = [row for row in summary.clients if row.figures.throttled]
    if not slowed:
        return []
    slowed.sort(key=lambda row: -row.figures.throttle_ms)
    rows = [
        [
            TableCell(client_text(row.name, terminal), CYAN),
            TableCell(terminal.escape(row.name.client_host)),
            TableCell(format_count(row.figures.throttled), RED),
            TableCell(terminal.show(format_duration(row.figures.throttle_max_ms * NS_PER_MS))),
            TableCell(terminal.show(format_duration(row.figures.throttle_ms * NS_PER_MS))),
        ]
        for row in slowed[: terminal.row_limit(THROTTLED_SHOWN)]
    ]
    locations = (row.first_throttled for row in summary.apis)
    timed = [location for location in locations if location and location.time_ns is not None]
    note = "by quota"
    if timed:
        first = min(timed, key=lambda location: location.time_ns or 0)
        note += f", first at {terminal.clock(first.time_ns)} in packet #{first.response_packet}"
    return [
        heading("Throttling", note, terminal),
        *table_lines(THROTTLING_COLUMNS, rows, terminal),
        *omitted_lines(len(slowed), THROTTLED_SHOWN, "client", terminal),
    ]


def faults(summary: Summary, terminal: Terminal) -> list[str]:
    """Return the lines of messages that could not be decoded, with an example; none without such messages."""
    if not summary.faults:
        return []
    rows = [
        [
            TableCell(api_text(row.api_name, row.api_version, row.api_key, terminal), CYAN),
            TableCell(format_count(row.exchanges), YELLOW),
            TableCell(terminal.escape(row.first.detail)),
            *location_cells(row.first, terminal)[:2],
        ]
        for row in summary.faults[: terminal.row_limit(FAULTS_SHOWN)]
    ]
    note = "wrong or missing bytes; latencies still count"
    return [
        heading("Not decoded", note, terminal),
        *table_lines(FAULT_COLUMNS, rows, terminal),
        *omitted_lines(len(summary.faults) + summary.omitted.faults, FAULTS_SHOWN, "kind", terminal),
    ]
