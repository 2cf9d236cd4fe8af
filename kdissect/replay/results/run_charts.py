"""The charts of the page of a comparison: SVG without a script, as wide as the page and in its colours."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import ceil, log10
from typing import Any, NamedTuple

from kdissect.replay.results.html_elements import Markup, element, joined
from kdissect.text import format_duration

HUES = ("s0", "s1", "s2", "s3", "s4", "s5", "s6")
CAPTURED, REPLAYED, LATE = "s4", "s0", "s1"
BAR_WIDTH = 170  # of a latency, in pixels
SHORTEST_BAR = 1.7  # pixels: one that can be seen
BAR_ROOM = 0.3  # decades below the shortest bar
PANEL_HEIGHT = 110  # pixels
PLANE = 1000  # the height of a panel in its own units, one of which is a step wide
MOST_TIMES = 7  # on the axis of time
LEAST_MS = 0.01  # of a logarithmic scale
STYLE = """
.course { display: grid; grid-template-columns: 58px minmax(0, 1fr); }
.course .levels text { text-anchor: end; }
.course path, .course line { vector-effect: non-scaling-stroke; }
"""

Line = Sequence[float | None]


def shares_bar(parts: Sequence[tuple[str, int]]) -> Markup:
    """Return what the requests became, as one bar with its legend."""
    total = sum(count for _, count in parts) or 1
    bars, legend, start = [], [], 0.0
    for number, (name, count) in enumerate(parts):
        hue, width = HUES[number % len(HUES)], 100 * count / total
        bars.append(
            element(
                "rect",
                element("title", f"{name}: {count:,}"),
                x=f"{start:.2f}%",
                width=f"{max(width, 0.2):.2f}%",
                height=12,
                fill=f"var(--{hue})",
            )
        )
        legend.append(_legend(hue, f"{name} {count:,}"))
        start += width
    chart = element(
        "svg", *bars, class_="chart", width="100%", height=12, role="img", aria_label="what requests became"
    )
    return joined(chart, element("div", *legend, class_="key"))


def latency_bars(latency: Mapping[str, Any]) -> Iterator[Markup]:
    """Yield for each API the captured p99 above the replayed one, all on one logarithmic scale."""
    pairs = [
        [
            (api[key]["p99"], hue)
            for key, hue in (("captured_ms", CAPTURED), ("service_ms", REPLAYED))
            if api[key]
        ]
        for api in latency.values()
    ]
    low, high = _decades([value for pair in pairs for value, _ in pair], BAR_ROOM)
    for pair in pairs:
        bars = [
            element(
                "rect",
                y=1 + 9 * number,
                width=f"{max(BAR_WIDTH * _log_part(value, low, high), SHORTEST_BAR):.0f}",
                height=7,
                fill=f"var(--{hue})",
            )
            for number, (value, hue) in enumerate(pair)
        ]
        yield element(
            "svg", *bars, width=BAR_WIDTH, height=18, role="img", aria_label="p99 captured and replayed"
        )


class ChartScale(NamedTuple):
    """Place of a value between the bottom (0) and the top (1) of a panel, and which values are marked."""

    low: float
    high: float
    logarithmic: bool
    marks: tuple[tuple[float, str], ...]

    def part(self, value: float) -> float:
        """Return the height of a value as a part of 1."""
        return _log_part(value, self.low, self.high) if self.logarithmic else value / self.high


def timeline_charts(timeline: Mapping[str, Any]) -> Iterator[Markup]:
    """Yield panels over the run's time: requests due and sent, latency captured and replayed, and lag."""
    step_ms, steps = timeline["step_ms"], len(timeline["due"])
    yield _caption(f"Requests in {_ms(step_ms)}", _legend(CAPTURED, "due"), _legend(REPLAYED, "sent"))
    counts = _linear([*timeline["due"], *timeline["sent"]], lambda value: f"{value:,.0f}", whole=True)
    yield _panel(
        counts, steps, _bars(timeline["due"], counts, CAPTURED), _line(timeline["sent"], counts, REPLAYED)
    )
    yield from _latency_panel(timeline["captured_p99_ms"], timeline["response_p99_ms"], steps)
    lags = [value or 0 for value in timeline["lag_max_ms"]]
    yield _caption("Behind schedule", _legend(LATE, "the latest of each step, whatever the cause"))
    scale = _linear(lags, _ms)
    yield _panel(scale, steps, _bars(lags, scale, LATE))
    yield _time_axis(steps * step_ms)


def _latency_panel(captured: Line, replayed: Line, steps: int) -> Iterator[Markup]:
    known = [value for line in (captured, replayed) for value in line if value is not None]
    if not known:
        return
    yield _caption(
        "Latency, p99 of each step, the slowest where there are few",
        _legend(CAPTURED, "captured"),
        _legend(REPLAYED, "replayed, from the scheduled moment"),
    )
    scale = _logarithmic(known)
    yield _panel(scale, steps, _line(captured, scale, CAPTURED), _line(replayed, scale, REPLAYED))


def _caption(title: str, *legend: Markup) -> Markup:
    return element("div", element("h3", title), *legend, class_="caption")


def _legend(hue: str, text: str) -> Markup:
    square = element("rect", width=10, height=10, rx=2, fill=f"var(--{hue})")
    return element("span", element("svg", square, width=10, height=10, aria_hidden="true"), " ", text)


def _panel(scale: ChartScale, steps: int, *drawn: Markup) -> Markup:
    """Return a plane of `steps` by `PLANE`, as wide as there is room, with the marks of its scale."""
    levels, lines = [], []
    for value, text in scale.marks:
        down = 1 - scale.part(value)
        height = f"{down * PLANE:.1f}"
        levels.append(element("text", text, x=50, y=f"{down * PANEL_HEIGHT + 4:.1f}"))
        lines.append(element("line", class_="axis", x2=steps, y1=height, y2=height))
    plane = element(
        "svg",
        *lines,
        *drawn,
        element("line", class_="frame", x2=steps, y1=PLANE, y2=PLANE),
        class_="chart",
        height=PANEL_HEIGHT,
        viewBox=f"0 0 {steps} {PLANE}",
        preserveAspectRatio="none",
        role="img",
        aria_label="over the time of the run",
    )
    beside = element("svg", *levels, class_="chart levels", height=PANEL_HEIGHT, aria_hidden="true")
    return element("div", beside, plane, class_="course")


def _bars(values: Sequence[float], scale: ChartScale, hue: str) -> Markup:
    path = "".join(
        f"M{step} {PLANE}v{-PLANE * scale.part(value):.1f}h.86V{PLANE}z"
        for step, value in enumerate(values)
        if value
    )
    return element("path", d=path, fill=f"var(--{hue})")


def _line(values: Line, scale: ChartScale, hue: str) -> Markup:
    """Return a line of steps, each as wide as it is; it is interrupted where there is no value."""
    path, known = [], False
    for step, value in enumerate(values):
        if value is not None:
            height = PLANE * (1 - scale.part(value))
            path.append(f"V{height:.1f}H{step + 1}" if known else f"M{step} {height:.1f}H{step + 1}")
        known = value is not None
    return element("path", d="".join(path), fill="none", stroke=f"var(--{hue})", stroke_width=2)


def _time_axis(length_ms: float) -> Markup:
    every = _round_step(length_ms / MOST_TIMES)
    marks = [
        element(
            "text",
            f"+{_ms(number * every) if number else '0s'}",
            x=f"{100 * number * every / length_ms:.2f}%",
            y=14,
        )
        for number in range(int(0.97 * length_ms / every) + 1)
    ]
    axis = element("svg", *marks, class_="chart", height=20, aria_hidden="true")
    return element("div", element("span"), axis, class_="course")


def _ms(value: float) -> str:
    return format_duration(round(value * 1e6))


def _linear(values: Sequence[float], text: Callable[[float], str], *, whole: bool = False) -> ChartScale:
    """Return a scale from 0; its marks are whole numbers if asked for."""
    highest = max([*values, 1 if whole else 0.001])
    every = _round_step(highest / 3)
    every = max(every, 1) if whole else every
    top = max(highest, every)
    marks = tuple((number * every, text(number * every)) for number in range(1, int(top / every) + 1))
    return ChartScale(0, top, False, marks)


def _logarithmic(values_ms: Sequence[float]) -> ChartScale:
    low, high = _decades(values_ms, 0)
    marks = (10.0**power for power in range(ceil(low), int(high) + 1))
    return ChartScale(low, high, True, tuple((value, _ms(value)) for value in marks))


def _decades(values_ms: Sequence[float], room: float) -> tuple[float, float]:
    """Return the decimal logarithms between which values lie, with `room` below; 10 µs is the least value."""
    shown = [max(value, LEAST_MS) for value in values_ms] or [1.0]
    low = log10(min(shown)) - max(room, 0.05)
    return low, max(log10(max(shown)) + (0 if room else 0.05), low + 0.1)


def _log_part(value_ms: float, low: float, high: float) -> float:
    return min(max((log10(max(value_ms, LEAST_MS)) - low) / (high - low), 0), 1)


def _round_step(least: float) -> float:
    """Return the smallest of 1, 2, 5, 10, … that is not smaller."""
    power = 10.0 ** int(log10(least) - (least < 1))
    return next(mantissa * power for mantissa in (1, 2, 5, 10, 20) if mantissa * power >= least * 0.999)
