"""What the page of a comparison draws: plain SVG without a script, in the hues of its style, as wide as the page."""

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from math import ceil, log10
from typing import Any, NamedTuple

from kdissect.text import format_duration

HUES = ("s0", "s1", "s2", "s3", "s4", "s5", "s6")
CAPTURED, REPLAYED, LATE = "s4", "s0", "s1"
BAR_WIDTH = 170
HEIGHT = 110  # of a panel
MOST_MARKS = 7  # on the axis of time
STYLE = """
.course { display: grid; grid-template-columns: 58px minmax(0, 1fr); }
.course .levels text { text-anchor: end; } .course path, .course line { vector-effect: non-scaling-stroke; }
"""


def shares_bar(parts: Sequence[tuple[str, int]]) -> str:
    """Draw what the requests became as one bar, with its legend."""
    total = sum(count for _, count in parts) or 1
    bars, legend, at = [], [], 0.0
    for number, (name, count) in enumerate(parts):
        hue, width = HUES[number % len(HUES)], 100 * count / total
        bars.append(
            f"<rect x='{at:.2f}%' width='{max(width, 0.2):.2f}%' height='12' fill='var(--{hue})'><title>{escape(name)}: {count:,}</title></rect>"
        )
        legend.append(_legend(hue, f"{name} {count:,}"))
        at += width
    return f"<svg class='chart' width='100%' height='12' role='img' aria-label='what requests became'>{''.join(bars)}</svg><div class='key'>{''.join(legend)}</div>"


def latency_bars(latency: Mapping[str, Any]) -> Iterator[str]:
    """Draw for each API the captured 99th percentile above the replayed one, all on one logarithmic scale."""
    pairs = [
        [(each[kind]["p99"], hue) for kind, hue in (("captured_ms", CAPTURED), ("service_ms", REPLAYED)) if each[kind]]
        for each in latency.values()
    ]  # fmt: skip
    low, high = _decades([value for pair in pairs for value, _ in pair], 0.3)
    for pair in pairs:
        bars = [
            f"<rect y='{1 + 9 * at}' width='{max(BAR_WIDTH * _part(value, low, high), 1.7):.0f}' height='7' fill='var(--{hue})'/>"
            for at, (value, hue) in enumerate(pair)
        ]
        yield f"<svg width='{BAR_WIDTH}' height='18' role='img' aria-label='p99 captured and replayed'>{''.join(bars)}</svg>"


class Scale(NamedTuple):
    """Where a value stands between the bottom (0) and the top (1) of a panel, and which values are marked beside it."""

    low: float
    high: float
    logarithmic: bool
    marks: tuple[tuple[float, str], ...]

    def part(self, value: float) -> float:
        """Give the place of a value."""
        if self.logarithmic:
            return _part(value, self.low, self.high)
        return value / self.high


def timeline_charts(found: Mapping[str, Any]) -> Iterator[str]:
    """Draw the course of a run: requests due and sent, latency captured and replayed, and lag, over the run's time."""
    step_ms, steps = found["step_ms"], len(found["due"])
    of_step = format_duration(round(step_ms * 1e6))
    yield _caption(f"Requests in {of_step}", _legend(CAPTURED, "due"), _legend(REPLAYED, "sent"))
    counts = _even([*found["due"], *found["sent"]], lambda value: f"{value:,.0f}", whole=True)
    yield _panel(counts, steps, _bars(found["due"], counts, CAPTURED), _line(found["sent"], counts, REPLAYED))
    latencies = [
        value for name in ("captured_p99_ms", "response_p99_ms") for value in found[name] if value is not None
    ]
    if latencies:
        yield _caption(
            "Latency, p99 of each step, the slowest where there are few",
            _legend(CAPTURED, "captured"),
            _legend(REPLAYED, "replayed, from the scheduled moment"),
        )
        scale = _logarithmic(latencies)
        yield _panel(
            scale,
            steps,
            _line(found["captured_p99_ms"], scale, CAPTURED),
            _line(found["response_p99_ms"], scale, REPLAYED),
        )
    lags = [value or 0 for value in found["lag_max_ms"]]
    yield _caption("Behind schedule", _legend(LATE, "the latest of each step, whatever the cause"))
    scale = _even(lags, lambda value: format_duration(round(value * 1e6)))
    yield _panel(scale, steps, _bars(lags, scale, LATE))
    yield _time_axis(steps * step_ms)


def _caption(title: str, *legend: str) -> str:
    return f"<div class='caption'><h3>{escape(title)}</h3>{''.join(legend)}</div>"


def _legend(hue: str, text: str) -> str:
    return f"<span><svg width='10' height='10' aria-hidden='true'><rect width='10' height='10' rx='2' fill='var(--{hue})'/></svg> {escape(text)}</span>"


def _panel(scale: Scale, steps: int, *drawn: str) -> str:
    """Draw on a plane of `steps` by 1000, as wide as there is room; what the heights mean stands beside it."""
    levels, lines = [], []
    for value, text in scale.marks:
        down = 1 - scale.part(value)
        levels.append(f"<text x='50' y='{down * HEIGHT + 4:.1f}'>{escape(text)}</text>")
        lines.append(f"<line class='axis' x2='{steps}' y1='{down * 1000:.1f}' y2='{down * 1000:.1f}'/>")
    return (
        f"<div class='course'><svg class='chart levels' height='{HEIGHT}' aria-hidden='true'>{''.join(levels)}</svg>"
        f"<svg class='chart' height='{HEIGHT}' viewBox='0 0 {steps} 1000' preserveAspectRatio='none' role='img' aria-label='over the time of the run'>"
        f"{''.join(lines)}{''.join(drawn)}<line class='frame' x2='{steps}' y1='1000' y2='1000'/></svg></div>"
    )


def _bars(values: Sequence[float], scale: Scale, hue: str) -> str:
    path = "".join(
        f"M{at} 1000v{-1000 * scale.part(value):.1f}h.86V1000z" for at, value in enumerate(values) if value
    )
    return f"<path d='{path}' fill='var(--{hue})'/>"


def _line(values: Sequence[float | None], scale: Scale, hue: str) -> str:
    """Draw steps, each as wide as it is; where there is no value the line ends."""
    path, known = [], False
    for at, value in enumerate(values):
        if value is not None:
            high = 1000 * (1 - scale.part(value))
            path.append(f"V{high:.1f}H{at + 1}" if known else f"M{at} {high:.1f}H{at + 1}")
        known = value is not None
    return f"<path d='{''.join(path)}' fill='none' stroke='var(--{hue})' stroke-width='2'/>"


def _time_axis(length_ms: float) -> str:
    every = _round_step(length_ms / MOST_MARKS)
    marks = [
        f"<text x='{100 * at * every / length_ms:.2f}%' y='14'>+{format_duration(round(at * every * 1e6)) if at else '0s'}</text>"
        for at in range(int(0.97 * length_ms / every) + 1)
    ]
    return f"<div class='course'><span></span><svg class='chart' height='20' aria-hidden='true'>{''.join(marks)}</svg></div>"


def _even(values: Sequence[float], text: Any, *, whole: bool = False) -> Scale:
    highest = max([*values, 1 if whole else 0.001])
    every = _round_step(highest / 3)
    every = max(every, 1) if whole else every
    top = max(highest, every)
    return Scale(
        0, top, False, tuple((at * every, text(at * every)) for at in range(1, int(top / every) + 1))
    )


def _logarithmic(values: Sequence[float]) -> Scale:
    low, high = _decades(values, 0)
    marks = (10.0**power for power in range(ceil(low), int(high) + 1))
    return Scale(low, high, True, tuple((value, format_duration(round(value * 1e6))) for value in marks))


def _decades(values: Sequence[float], room: float) -> tuple[float, float]:
    """Give the decimal logarithms between which values lie, in ms; what is below 10 µs counts as that."""
    shown = [max(value, 0.01) for value in values] or [1.0]
    low = log10(min(shown)) - max(room, 0.05)
    return low, max(log10(max(shown)) + (0 if room else 0.05), low + 0.1)


def _part(value: float, low: float, high: float) -> float:
    return min(max((log10(max(value, 0.01)) - low) / (high - low), 0), 1)


def _round_step(least: float) -> float:
    """Give the smallest of 1, 2, 5, 10, … that is no smaller."""
    power = 10.0 ** int(log10(least) - (least < 1))
    return next(mantissa * power for mantissa in (1, 2, 5, 10, 20) if mantissa * power >= least * 0.999)
