"""Line charts as SVG, drawn from a benchmark's figures: linear axes from zero, a line and a label for each
series."""

from collections.abc import Mapping, Sequence
from html import escape

WIDTH, HEIGHT = 640, 360
LEFT, RIGHT, TOP, BOTTOM = 64, 150, 40, 48
COLOURS = ("#1f6feb", "#d1242f", "#1a7f37", "#9a6700")
STEPS = (1, 2, 2.5, 5, 10)
TICKS = 5

Points = Sequence[tuple[float, float]]


def chart(title: str, across: str, up: str, series: Mapping[str, Points]) -> str:
    """Draw the series; `across` and `up` name the axes with their units."""
    points = [point for line in series.values() for point in line]
    most_x, step_x = _scale(max(x for x, _ in points))
    most_y, step_y = _scale(max(y for _, y in points))
    wide, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def at(x: float, y: float) -> tuple[float, float]:
        return LEFT + wide * x / most_x, TOP + high * (1 - y / most_y)

    out = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
            'font-family="sans-serif" font-size="12">'
        ),
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="22" font-size="15" font-weight="bold">{escape(title)}</text>',
    ]
    for value in _ticks(most_x, step_x):
        x, y = at(value, 0)
        out.append(f'<text x="{x:.1f}" y="{y + 18:.1f}" text-anchor="middle">{value:g}</text>')
    for value in _ticks(most_y, step_y):
        x, y = at(0, value)
        out.append(f'<path d="M{x:.1f} {y:.1f}h{wide}" stroke="#d0d7de"/>')
        out.append(f'<text x="{x - 8:.1f}" y="{y + 4:.1f}" text-anchor="end">{value:g}</text>')
    out.append(
        f'<text x="{LEFT + wide / 2:.1f}" y="{HEIGHT - 10}" text-anchor="middle">{escape(across)}</text>'
    )
    middle = TOP + high / 2
    out.append(
        f'<text x="16" y="{middle:.1f}" text-anchor="middle" transform="rotate(-90 16 '
        f'{middle:.1f})">{escape(up)}</text>'
    )
    for colour, (name, line) in zip(COLOURS * len(series), series.items(), strict=False):
        places = [at(x, y) for x, y in sorted(line)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        out += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>' for x, y in places]
        x, y = places[-1]
        out.append(f'<text x="{x + 9:.1f}" y="{y + 4:.1f}" fill="{colour}">{escape(name)}</text>')
    return "\n".join([*out, "</svg>", ""])


def _scale(most: float) -> tuple[float, float]:
    """Return a round end of an axis that holds `most`, and the distance of its ticks."""
    rough = most / TICKS
    power = 10.0
    while power > rough:
        power /= 10
    while power * 10 <= rough:
        power *= 10
    step = next(power * factor for factor in STEPS if power * factor >= rough)
    return step * -(-most // step), step


def _ticks(most: float, step: float) -> list[float]:
    return [step * number for number in range(round(most / step) + 1)]
