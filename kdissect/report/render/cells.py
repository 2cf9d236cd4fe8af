"""Cells and columns that many tables share: latencies, counts, sizes, shares, names, histograms of one line.

A tilde marks a percentile of too few values, which is the maximum. A question mark marks figures of
connections that were not captured in full.
"""

from collections.abc import Sequence

from kdissect.report.model.call_figures import Figures, Latency
from kdissect.report.model.summary import ClientName
from kdissect.report.render.table import TableCell, TableColumn
from kdissect.report.render.terminal import CYAN, DIM, RED, YELLOW, Terminal
from kdissect.report.wording import NO_CLIENT_ID, software_text
from kdissect.text import format_address, format_count, format_duration, format_share, format_size

BARS = "▁▂▃▄▅▆▇█"
ASCII_BARS = ".:-=+*%#"
STEPS_TITLE = " 10µs  1ms   0.1s  10s "
DECADES_TITLE = "10µs-100s"
WIDE_HISTOGRAM = 128
"""From this width of the terminal on, a histogram has three steps to a decade."""

SLOW_NS = 10**9
LATENCY_COLUMNS = (
    TableColumn("mean", drop=6),
    TableColumn("p50"),
    TableColumn("p90", drop=1),
    TableColumn("p99"),
    TableColumn("p99.9", drop=1),
    TableColumn("max"),
)
ENOUGH = {"p50": 2, "p90": 10, "p99": 100, "p99.9": 1000}
"""With fewer values than this, a percentile is the maximum."""

FIGURE_COLUMNS = (
    TableColumn("calls"),
    TableColumn("time"),
    LATENCY_COLUMNS[0]._replace(drop=9),
    LATENCY_COLUMNS[1],
    LATENCY_COLUMNS[2]._replace(drop=5),
    LATENCY_COLUMNS[3],
    LATENCY_COLUMNS[4]._replace(drop=5),
    LATENCY_COLUMNS[5],
    TableColumn("errors"),
    TableColumn("no resp.", drop=6),
    TableColumn("throttled", drop=7),
    TableColumn("requests", drop=10),
    TableColumn("responses", drop=10),
)


def latency_cells(latency: Latency | None, terminal: Terminal) -> list[TableCell]:
    """Return the cells of `LATENCY_COLUMNS`."""
    if latency is None:
        return [TableCell("-", DIM)] * len(LATENCY_COLUMNS)
    values = {"p50": latency.p50_ns, "p90": latency.p90_ns, "p99": latency.p99_ns, "p99.9": latency.p99_9_ns}
    cells = [duration_cell(latency.mean_ns, terminal)]
    for name, value in values.items():
        cell = duration_cell(value, terminal)
        cells.append(TableCell("~" + cell.text, DIM) if latency.count < ENOUGH[name] else cell)
    return [*cells, duration_cell(latency.max_ns, terminal)]


def figure_cells(figures: Figures, terminal: Terminal) -> list[TableCell]:
    """Return the cells of `FIGURE_COLUMNS`."""
    return [
        TableCell(format_count(figures.exchanges)),
        share_cell(figures.time_share),
        *latency_cells(figures.service, terminal),
        error_cell(figures),
        unanswered_cell(figures),
        count_cell(figures.throttled, RED),
        size_cell(figures.request_bytes),
        size_cell(figures.response_bytes),
    ]


def duration_cell(ns: int | None, terminal: Terminal) -> TableCell:
    """Return a duration, from one second on in yellow."""
    style = DIM if ns is None else YELLOW if ns >= SLOW_NS else ""
    return TableCell(terminal.show(format_duration(ns)), style)


def count_cell(count: int, style: str = "") -> TableCell:
    """Return a count, a dim dash for 0."""
    return TableCell(format_count(count), style) if count else TableCell("-", DIM)


def size_cell(count: int) -> TableCell:
    """Return a number of bytes, a dim dash for 0."""
    return TableCell(format_size(count)) if count else TableCell("-", DIM)


def share_cell(part: float) -> TableCell:
    """Return a part of 1 as a percentage, dim below 1 %."""
    return TableCell(format_share(part), "" if part >= 0.01 else DIM)


def error_cell(figures: Figures) -> TableCell:
    """Return the number of responses with an error."""
    return count_cell(figures.error_responses, RED)


def unanswered_cell(figures: Figures) -> TableCell:
    """Return the number of requests without a response, with a question mark if some may be lost."""
    if not figures.unanswered:
        return TableCell("-", DIM)
    doubtful = figures.unanswered_lossy > 0
    count = format_count(figures.unanswered)
    return TableCell(f"{count}?", YELLOW) if doubtful else TableCell(count, RED)


def name_cell(name: str, doubtful: int) -> TableCell:
    """Return the name of a row, with a question mark if some of its exchanges are doubtful."""
    return TableCell(name + "?" if doubtful else name, CYAN)


def client_text(name: ClientName, terminal: Terminal) -> str:
    """Return the client id."""
    return NO_CLIENT_ID if name.client_id is None else terminal.escape(name.client_id)


def software_cell(name: ClientName, terminal: Terminal) -> TableCell:
    """Return the name and version of client software, a dash if unknown."""
    if name.client_software_name is None:
        return TableCell("-")
    return TableCell(terminal.escape(software_text(name.client_software_name, name.client_software_version)))


def api_text(name: str | None, version: int | None, key: int | None, terminal: Terminal) -> str:
    """Return an API and its version, such as Produce v9; an API without a name by its key."""
    if name is None and key is None:
        return "(no request)"
    return terminal.escape(f"{name or f'API {key}'}" + ("" if version is None else f" v{version}"))


def address_text(host: str | None, port: int | None, terminal: Terminal) -> str:
    """Return an address, such as 10.0.0.1:9092 or [::1]:9092."""
    return format_address(terminal.escape(host), port)


def histogram_column(terminal: Terminal) -> TableColumn:
    """Return the column of `histogram_cell`."""
    title = STEPS_TITLE if terminal.width >= WIDE_HISTOGRAM else DECADES_TITLE
    return TableColumn(terminal.show(title), right=False, drop=5)


def histogram_cell(latency: Latency | None, terminal: Terminal) -> TableCell:
    """Return a histogram as bars on a logarithmic axis; heights go by the square root of the count."""
    if latency is None:
        return TableCell("")
    counts = latency.histogram if terminal.width >= WIDE_HISTOGRAM else decades(latency.histogram)
    bars = BARS if terminal.unicode else ASCII_BARS
    highest = max(counts)
    heights = (round((len(bars) - 1) * (count / highest) ** 0.5) for count in counts)
    return TableCell(
        "".join(bars[height] if count else " " for count, height in zip(counts, heights, strict=True))
    )


def decades(histogram: Sequence[int]) -> list[int]:
    """Return a histogram with the steps 1, 2 and 5 of each decade added up."""
    return [
        histogram[0],
        *(sum(histogram[at : at + 3]) for at in range(1, len(histogram) - 1, 3)),
        histogram[-1],
    ]
