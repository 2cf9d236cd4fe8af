"""What went wrong, each with the first place it was seen: errors, requests without answer, throttling, faults."""

from kdissect.report.model.summary import Location, Summary
from kdissect.report.render.ranking_table import (
    api_label,
    client_label,
    host_port,
    more,
)
from kdissect.report.render.table import (
    CYAN,
    DIM,
    RED,
    YELLOW,
    TableCell,
    TableColumn,
    Terminal,
    heading,
    table_lines,
)
from kdissect.report.render.table_cells import count_cell
from kdissect.text import format_count, format_duration

ERRORS_SHOWN, UNANSWERED_SHOWN, THROTTLED_SHOWN, FAULTS_SHOWN = 10, 6, 5, 4

PLACE_COLUMNS = (
    TableColumn("first seen", right=False), TableColumn("packet"), TableColumn("file", right=False, drop=9, shortest=12),
    TableColumn("topic", right=False, drop=2, shortest=8), TableColumn("client", right=False, drop=3, shortest=8),
    TableColumn("connection", right=False, drop=4, shortest=24),
)  # fmt: skip


def place_cells(
    place: Location | None, terminal: Terminal, *, request: bool = False, file: bool = True
) -> list[TableCell]:
    """Give the cells of `PLACE_COLUMNS`; the packet is the answer's unless the request is asked for or all there is."""
    if place is None:
        return [TableCell("-", DIM)] * len(PLACE_COLUMNS)
    packet = place.request_packet if request or place.response_packet is None else place.response_packet
    topic = terminal.captured(place.topic)
    if place.partition is not None:
        topic += f"-{place.partition}"
    connection = "-"
    if place.client_host is not None:
        ends = (place.client_host, place.client_port), (place.server_host, place.server_port)
        connection = terminal.own(" → ").join(host_port(host, port, terminal) for host, port in ends)
    return [
        TableCell(terminal.clock(place.time_ns)), TableCell("-" if packet is None else f"#{packet}"), TableCell(terminal.captured(place.capture_file) if file else ""),
        TableCell(topic), TableCell(terminal.captured(place.client_id)), TableCell(connection),
    ]  # fmt: skip


def errors(summary: Summary, terminal: Terminal) -> list[str]:
    """Give error codes per API with their first place."""
    if not summary.errors:
        return []
    columns = (
        TableColumn("error", right=False, shortest=26), TableColumn("API", right=False, shortest=12), TableColumn("answers"),
        TableColumn("partitions", drop=8), *PLACE_COLUMNS,
    )  # fmt: skip
    rows = [
        [
            TableCell(terminal.captured(row.error_name or f"code {row.error_code}"), RED),
            TableCell(terminal.captured(api_label(row.api_name, None, row.api_key))),
            TableCell(format_count(row.exchanges)), count_cell(row.partitions), *place_cells(row.first, terminal, file=len(summary.capture.files) > 1),
        ]
        for row in summary.errors[: terminal.shown(ERRORS_SHOWN)]
    ]  # fmt: skip
    lines = [heading("Errors", "by answers that carry them", terminal), *table_lines(columns, rows, terminal)]
    return lines + more(len(summary.errors), ERRORS_SHOWN, "errors", terminal)


def unanswered(summary: Summary, terminal: Terminal) -> list[str]:
    """Give requests without an answer, and why they may have none."""
    silent = sorted(
        (row for row in summary.apis if row.figures.unanswered), key=lambda row: -row.figures.unanswered
    )
    if not silent:
        return []
    columns = (
        TableColumn("API", right=False, shortest=14), TableColumn("requests"), TableColumn("closed"), TableColumn("open"), TableColumn("lost?"), *PLACE_COLUMNS
    )  # fmt: skip
    rows = [
        [
            TableCell(terminal.captured(api_label(row.api_name, row.api_version, row.api_key)), CYAN),
            TableCell(format_count(row.figures.unanswered)), count_cell(row.figures.unanswered_closed, RED),
            count_cell(row.figures.unanswered_open), count_cell(row.figures.unanswered_lossy, YELLOW),
            *place_cells(row.first_unanswered, terminal, request=True, file=len(summary.capture.files) > 1),
        ]
        for row in silent[: terminal.shown(UNANSWERED_SHOWN)]
    ]  # fmt: skip
    note = "lost?: the capture misses bytes, an answer may have come"
    lines = [heading("Unanswered", note, terminal), *table_lines(columns, rows, terminal)]
    return lines + more(len(silent), UNANSWERED_SHOWN, "API versions", terminal)


def throttling(summary: Summary, terminal: Terminal) -> list[str]:
    """Give clients that brokers told to wait, and where each API was throttled first."""
    slowed = sorted(
        (row for row in summary.clients if row.figures.throttled), key=lambda row: -row.figures.throttle_ms
    )
    if not slowed:
        return []
    columns = (
        TableColumn("client", right=False, shortest=12), TableColumn("host", right=False, drop=1, shortest=11), TableColumn("answers"),
        TableColumn("longest"), TableColumn("in all"),
    )  # fmt: skip
    rows = [
        [
            TableCell(client_label(row.name, terminal), CYAN), TableCell(terminal.captured(row.name.client_host)),
            TableCell(format_count(row.figures.throttled), RED), TableCell(terminal.own(format_duration(row.figures.throttle_max_ms * 10**6))),
            TableCell(terminal.own(format_duration(row.figures.throttle_ms * 10**6))),
        ]
        for row in slowed[: terminal.shown(THROTTLED_SHOWN)]
    ]  # fmt: skip
    firsts = [
        row.first_throttled
        for row in summary.apis
        if row.first_throttled and row.first_throttled.time_ns is not None
    ]
    first = min(firsts, key=lambda place: place.time_ns or 0, default=None)
    note = (
        f"by quota, first at {terminal.clock(first.time_ns)} in packet #{first.response_packet}"
        if first
        else "by quota"
    )
    lines = [heading("Throttling", note, terminal), *table_lines(columns, rows, terminal)]
    return lines + more(len(slowed), THROTTLED_SHOWN, "clients", terminal)


def faults(summary: Summary, terminal: Terminal) -> list[str]:
    """Give what could not be decoded, with an example."""
    if not summary.faults:
        return []
    columns = (
        TableColumn("API", right=False, shortest=14), TableColumn("messages"), TableColumn("for example", right=False, shortest=44),
        PLACE_COLUMNS[0]._replace(drop=1),
        PLACE_COLUMNS[1],
    )  # fmt: skip
    rows = [
        [
            TableCell(terminal.captured(api_label(row.api_name, row.api_version, row.api_key)), CYAN),
            TableCell(format_count(row.exchanges), YELLOW), TableCell(terminal.captured(row.first.detail)),
            *place_cells(row.first, terminal)[:2],
        ]
        for row in summary.faults[: terminal.shown(FAULTS_SHOWN)]
    ]  # fmt: skip
    total = len(summary.faults) + summary.omitted.faults
    lines = [
        heading("Not decoded", "wrong or missing bytes; pairs and latencies count all the same", terminal)
    ]
    return lines + table_lines(columns, rows, terminal) + more(total, FAULTS_SHOWN, "kinds", terminal)
