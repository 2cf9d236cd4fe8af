"""The blocks of docs/performance.md: the measurements of `analyze` in reports/bench.json as tables."""

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from tests.bench import page
from tests.bench.sizing import sizing

BENCH = Path(__file__).parents[2] / "reports" / "bench.json"


def blocks() -> Mapping[str, Callable[[], str]]:
    """Return one block for each part of the measurement."""
    found = json.loads(BENCH.read_text("utf-8"))
    start = found["start"]
    return {
        "bench start": lambda: (
            f"A small capture takes {start['warm_seconds']:.1f} s. "
            f"The first line appears after {start['first_line_seconds']:.2f} s. "
            f"With an empty cache it takes {start['first_run_seconds']:.1f} s."
        ),
        "bench tshark": lambda: _rows(page.against(found["captures"], start["warm_seconds"])),
        "bench size": lambda: _rows(page.growth(found)),
        "bench cluster": lambda: _rows(sizing(found)),
    }


def _rows(lines: Iterable[str]) -> str:
    return "\n".join(line for line in lines if line.startswith("|"))
