"""Cells that many tables share: latencies with their doubts, counts that warn, histograms of one line."""

from collections.abc import Sequence

from kdissect.report.model.summary import Figures, Latency
from kdissect.report.render.table import (
    DIM,
    RED,
    YELLOW,
    TableCell,
    TableColumn,
    Terminal,
)
from kdissect.text import (
    format_count,
    format_duration,
    format_share,
    format_size,
)

BARS = "▁▂▃▄▅▆▇█"
ASCII_BARS = ".:-=+*%#"
STEPS_TITLE = " 10µs  1ms   0.1s  10s "
DECADES_TITLE = "10µs-100s"
WIDE = 128
"""From this many columns on a histogram has three steps to a decade."""

LATENCY_COLUMNS = (
    TableColumn("mean", drop=6),
    TableColumn("p50"),
    TableColumn("p90", drop=1),
    TableColumn("p99"),
    TableColumn("p99.9", drop=1),
    TableColumn("max"),
)
ENOUGH = {"p50": 2, "p90": 10, "p99": 100, "p99.9": 1000}
"""Fewer values than this, and a percentile is the highest value."""


def latency_cells(latency: Latency | None, terminal: Terminal) -> list[TableCell]:
    """Give mean, percentiles and maximum; a percentile of too few values has a tilde before it."""
    if latency is None:
        return [TableCell("-", DIM)] * len(LATENCY_COLUMNS)
    values = {"p50": latency.p50_ns, "p90": latency.p90_ns, "p99": latency.p99_ns, "p99.9": latency.p99_9_ns}
    cells = [duration_cell(latency.mean_ns, terminal)]
    for name, value in values.items():
        few = latency.count < ENOUGH[name]
        cell = duration_cell(value, terminal)
        cells.append(TableCell("~" + cell.text, DIM) if few else cell)
    return [*cells, duration_cell(latency.max_ns, terminal)]


def duration_cell(ns: int | None, terminal: Terminal) -> TableCell:
    """Give a duration, from a second on in yellow."""
    return TableCell(terminal.own(format_duration(ns)), DIM if ns is None else YELLOW if ns >= 10**9 else "")


def count_cell(count: int, style: str = "") -> TableCell:
    """Give a count, a dim dash for none."""
    return TableCell(format_count(count), style) if count else TableCell("-", DIM)


def size_cell(count: int) -> TableCell:
    """Give a size, a dim dash for none."""
    return TableCell(format_size(count)) if count else TableCell("-", DIM)


def share_cell(part: float) -> TableCell:
    """Give a share of the whole."""
    return TableCell(format_share(part), "" if part >= 0.01 else DIM)


def error_cell(figures: Figures) -> TableCell:
    """Give exchanges with an error."""
    return count_cell(figures.error_responses, RED)


def unanswered_cell(figures: Figures) -> TableCell:
    """Give requests without an answer; with a question mark where the capture may just have lost the answer."""
    if not figures.unanswered:
        return TableCell("-", DIM)
    doubtful = figures.unanswered_lossy > 0
    return TableCell(
        format_count(figures.unanswered) + ("?" if doubtful else ""), YELLOW if doubtful else RED
    )


def doubtful(name: str, figures: Figures) -> str:
    """Mark a row that rests on connections of which the capture misses bytes."""
    return doubtful_name(name, figures.doubtful)


def doubtful_name(name: str, exchanges: int) -> str:
    """Mark a name when some of its exchanges are doubtful."""
    return name + "?" if exchanges else name


def histogram_column(terminal: Terminal) -> TableColumn:
    """Give the column for `histogram_cell`."""
    title = STEPS_TITLE if terminal.width >= WIDE else DECADES_TITLE
    return TableColumn(terminal.own(title), right=False, drop=5)


def histogram_cell(latency: Latency | None, terminal: Terminal) -> TableCell:
    """Give the histogram as bars on a logarithmic time axis; bar heights go by the square root of the count."""
    if latency is None:
        return TableCell("")
    counts = latency.histogram if terminal.width >= WIDE else decades(latency.histogram)
    bars = BARS if terminal.unicode else ASCII_BARS
    highest = max(counts)
    return TableCell(
        "".join(bars[round((len(bars) - 1) * (count / highest) ** 0.5)] if count else " " for count in counts)
    )  # fmt: skip


def decades(histogram: Sequence[int]) -> list[int]:
    """Fold steps 1, 2, 5 of each decade into one."""
    return [
        histogram[0],
        *(sum(histogram[at : at + 3]) for at in range(1, len(histogram) - 1, 3)),
        histogram[-1],
    ]
