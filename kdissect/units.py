"""Numbers as people read them: three significant digits and a unit, the same width in every row."""

from datetime import UTC, datetime

NANOSECOND_UNITS = ((10**9, "s"), (10**6, "ms"), (10**3, "µs"), (1, "ns"))
BYTE_UNITS = tuple(
    (1 << 10 * power, unit) for power, unit in ((4, "TiB"), (3, "GiB"), (2, "MiB"), (1, "KiB"), (0, "B"))
)
LARGE = ((10**12, "T"), (10**9, "G"), (10**6, "M"))


def duration(ns: int | None) -> str:
    """Give 41.2µs, 1.23ms, 12.3s, 4m07s, 3h05m, 3d04h; a dash for None."""
    if ns is None:
        return "-"
    seconds = ns / 10**9
    if round(seconds / 3600) >= 48:
        hours = round(seconds / 3600)
        return f"{hours // 24}d{hours % 24:02d}h"
    if round(seconds) >= 3600:
        minutes = round(seconds / 60)
        return f"{minutes // 60}h{minutes % 60:02d}m"
    if round(seconds) >= 120:
        return f"{round(seconds) // 60}m{round(seconds) % 60:02d}s"
    for factor, unit in NANOSECOND_UNITS:
        if ns >= factor * 0.9995 or factor == 1:
            return f"{ns}ns" if factor == 1 else _three_digits(ns / factor) + unit
    return "0ns"


def size(count: int) -> str:
    """Give 812 B, 1.23 KiB, 12.3 MiB."""
    for factor, unit in BYTE_UNITS:
        if count >= factor * 0.9995 and factor > 1:
            return f"{_three_digits(count / factor)} {unit}"
    return f"{count} B"


def number(count: int) -> str:
    """Give 182,044 or, from ten million on, 12.3M."""
    if abs(count) < 10**7:
        return f"{count:,}"
    for factor, unit in LARGE:
        if abs(count) >= factor * 0.9995:
            return _three_digits(count / factor) + unit
    return f"{count:,}"


def share(part: float) -> str:
    """Give a part of 1 as 12.3%, 0.4%, <0.1% or 100%."""
    if 0 < part < 0.0005:
        return "<0.1%"
    return "100%" if part >= 0.9995 else f"{part * 100:.1f}%" if part else "0%"


def clock(time_ns: int | None, *, date: bool = False) -> str:
    """Give the time of day in UTC with milliseconds, rounded down; with the date before it if asked for."""
    if time_ns is None:
        return "-"
    try:
        moment = datetime.fromtimestamp(time_ns // 10**9, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{time_ns}ns"
    return moment.strftime("%Y-%m-%d %H:%M:%S" if date else "%H:%M:%S") + f".{time_ns // 10**6 % 1000:03d}"


def _three_digits(value: float) -> str:
    return f"{value:.2f}" if value < 9.995 else f"{value:.1f}" if value < 99.95 else f"{value:.0f}"
