"""A comparison as text: lines fit."""

import json

import numpy as np
import pyarrow as pa
import pytest

from kdissect.report.build.compare import compare
from kdissect.report.build.report import build_report
from kdissect.report.model.summary import CaptureFacts, ProfileBy
from kdissect.report.partials import summarise
from kdissect.report.render.comparison_text import render
from kdissect.report.render.json import to_json
from kdissect.report.render.terminal import Terminal
from kdissect.tables.schemas import EXCHANGES
from kdissect.text import display_width
from tests.helpers import paper_capture


def report(latencies_us, errors=0, *, api=(0, "Produce", 9), by=ProfileBy.API, **more):
    rows = [
        paper_capture.exchange(1, at, api, at, int(latency * 1000), **more)
        | {"error_code": 6 if at < errors else 0}
        for at, latency in enumerate(latencies_us)
    ]
    for row in rows:
        row["error_name"] = "NOT_LEADER_OR_FOLLOWER" if row["error_code"] else "NONE"
    tables = {
        "exchanges": pa.Table.from_pylist(rows, EXCHANGES),
        "connections": paper_capture.tables()["connections"],
    }
    return json.loads(to_json(build_report(summarise(tables), CaptureFacts(files=("x.pcap",)), by=by)))


RNG = np.random.default_rng(3)


FAST = RNG.exponential(1000, 500)


@pytest.mark.parametrize("width", [80, 120, 200])
def test_lines_fit(width):
    text = render(compare(report(FAST), report(FAST * 3, errors=9)), Terminal(width))
    assert max(map(display_width, text.splitlines())) <= width
    assert "slower p50 p90 p99" in text
    assert "\x1b" not in text
