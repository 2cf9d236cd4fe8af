"""The terminal report: snapshots, widths, hostile names, plain words for empty captures."""

import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from kdissect.report.build.build_report import build_report
from kdissect.report.model.summary import ProfileBy
from kdissect.report.partials import summarise
from kdissect.report.render.report_text import incidents, legend, quality, render
from kdissect.report.render.terminal import Terminal
from kdissect.text import (
    display_width,
)
from tests.helpers import paper_capture, recorded
from tests.helpers import synthetic_tables as synthetic
from tests.helpers.report_rows import PRODUCE, many, report

SNAPSHOTS = Path(__file__).parent / "snapshots"
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
HOSTILE = [
    "\x1b]0;owned\x07",
    "a\rb\nc\x9b31m",
    "\u202eevil\u2066",
    "x" * 5000,
    "",
    "文字" * 40,
    "e\u0301" + "\u0300" * 50,
    "\x7f\x00",
]


@cache
def large_summary():
    """Return a report with more rows than a screen has, made once."""
    return build_report(summarise(synthetic.tables(np.random.default_rng(1), 1500)), paper_capture.CAPTURE)


@pytest.mark.parametrize(("width", "name"), [(80, "full-80"), (120, "full-120"), (100, "100")])
def test_snapshot(width, name):
    terminal = Terminal(width, full=name.startswith("full"))
    text = render(build_report(summarise(paper_capture.tables()), paper_capture.CAPTURE), terminal)
    assert text == (SNAPSHOTS / f"handmade-{name}.txt").read_text("utf-8")


@pytest.mark.parametrize("by", ProfileBy)
@pytest.mark.parametrize("width", [80, 120, 200])
def test_the_short_report_fits_one_screen_and_keeps_every_figure_of_the_profile(width, by):
    summary = build_report(
        summarise(synthetic.tables(np.random.default_rng(2), 1500)), paper_capture.CAPTURE, by=by
    )
    text = render(summary, Terminal(width, full=False))
    assert len(text.splitlines()) <= 50
    assert max(map(display_width, text.splitlines())) <= width
    title = next(line for line in text.splitlines() if "V/M" in line)
    for name in ("calls", "mean", "p50", "p99", "max", "V/M", "errors", "10µs"):
        assert name in title


@pytest.mark.parametrize("colour", [False, True])
@pytest.mark.parametrize("unicode", [False, True])
@pytest.mark.parametrize("width", [60, 79, 80, 100, 127, 128, 160, 200])
def test_no_line_is_wider_than_the_terminal(width, unicode, colour):
    text = render(large_summary(), Terminal(width, colour=colour, unicode=unicode))
    assert max(display_width(COLOURS.sub("", line)) for line in text.splitlines()) <= width
    assert ("\x1b" in text) == colour
    assert text.isascii() <= (not unicode)
    assert unicode or text.isascii()


def test_all_rows_when_the_whole_report_is_wanted():
    short, whole = (render(large_summary(), Terminal(160, whole=whole)) for whole in (False, True))
    assert "… and" in short
    assert "… and" not in whole
    assert len(whole.splitlines()) > len(short.splitlines())


def hostile_summary():
    tables = dict(paper_capture.tables())
    for name, column in (
        ("connections", "client_id"),
        ("connections", "client_host"),
        ("connections", "client_software_name"),
        ("connections", "client_software_version"),
        ("connections", "protocol"),
        ("exchanges", "client_id"),
        ("exchanges", "api_name"),
        ("exchanges", "error_name"),
        ("exchanges", "fault"),
        ("exchanges", "capture_file"),
        ("partitions", "topic"),
        ("partitions", "topic_id"),
        ("partitions", "codec"),
        ("partitions", "error_name"),
        ("names", "topic"),
        ("brokers", "host"),
    ):
        table = tables[name]
        values = pa.array([HOSTILE[at % len(HOSTILE)] for at in range(table.num_rows)], pa.string())
        if name == "connections" and column == "protocol":
            values = pa.array(["kafka", HOSTILE[0], HOSTILE[2]])
        tables[name] = table.set_column(table.schema.get_field_index(column), column, values)
    capture = replace(
        paper_capture.CAPTURE, files=tuple(HOSTILE), link_types=(HOSTILE[0],), warnings=tuple(HOSTILE)
    )
    return build_report(summarise(tables), capture)


@pytest.mark.parametrize("unicode", [False, True])
@pytest.mark.parametrize("width", [60, 80, 200])
def test_nothing_from_the_capture_moves_the_terminal(width, unicode):
    text = render(hostile_summary(), Terminal(width, colour=True, unicode=unicode))
    bare = COLOURS.sub("", text)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\u0300]", bare)
    assert set(COLOURS.findall(text)) <= {
        f"\x1b[{style}m" for style in ("0", "1", "2", "31", "32", "33", "36")
    }
    assert max(display_width(line) for line in bare.splitlines()) <= width
    assert "\\x1b" in bare


def test_the_headline_is_the_first_line_after_the_header():
    summary = recorded.analyzed("pause.pcapng")[0]
    lines = incidents(summary, Terminal(200, full=False))
    assert lines[1].startswith(" critical Broker 2 (127.0.0.1:29486) froze at 05:33:13.")
    assert "3 clients affected" in lines[2]
    text = render(summary, Terminal(120, full=False))
    assert text.index("Incidents") < text.index("Profile")


def test_the_impact_says_what_became_of_requests():
    for name, words in (
        ("limping.pcapng", "242 requests delayed"),
        ("refusals.pcapng", "20 requests refused with UNKNOWN_TOPIC_OR_PARTITION"),
        ("refusals.pcapng", "15 requests delayed by 6.34s in all"),
        ("broker-restart.pcapng", "5 requests without a response, 189 attempts to connect"),
    ):
        lines = incidents(recorded.analyzed(name)[0], Terminal(400, full=True))
        assert any(line.endswith(words) for line in lines), words


def test_reasons_are_shown_in_full_only():
    summary = recorded.analyzed("pause.pcapng")[0]
    assert any("look at:" in line for line in incidents(summary, Terminal(200, full=True)))
    assert not any("look at:" in line for line in incidents(summary, Terminal(200, full=False)))


def test_every_line_fits():
    for width in (60, 80, 200):
        for full in (True, False):
            lines = incidents(recorded.analyzed("broker-restart.pcapng")[0], Terminal(width, full=full))
            assert max(map(len, lines)) <= width


def test_nothing_is_shown_where_nothing_went_wrong():
    assert incidents(recorded.analyzed("tls.pcapng")[0], Terminal(100)) == []


def test_a_sound_capture_has_no_doubts():
    tables = dict(paper_capture.tables())
    tables = {
        name: table.slice(0, 1) if name in ("connections", "exchanges") else table
        for name, table in tables.items()
    }
    text = render(build_report(summarise(tables), paper_capture.CAPTURE), Terminal(100))
    assert "✓ nothing lost" in text
    assert "Capture quality" not in text


def test_each_counter_has_its_amount_share_and_meaning(summary):
    lines = quality(summary, Terminal(120))
    assert "Capture quality" in lines[0]
    assert lines[1].split()[:3] == ["500", "B", "5.0%"]
    assert sum(any(line.endswith(doubt.means) for line in lines) for doubt in summary.doubts) >= 4
    assert len([line for line in lines if line.startswith("     ")]) >= len(summary.doubts)


def test_warnings_are_folded_and_stay_text(summary):
    warned = replace(summary, capture=replace(summary.capture, warnings=("cut \x1b[2J " + "word " * 40,)))
    lines = quality(warned, Terminal(70))
    assert any(line.startswith(" ! cut \\x1b[2J") for line in lines)
    assert max(map(len, lines)) <= 70


def test_only_marks_that_the_tables_have_are_explained(summary):
    assert len(legend(summary, Terminal(120))) == 2
    sound = report(many(1500, PRODUCE, 1))
    assert legend(sound, Terminal(120)) == []
    (hint,) = legend(sound, Terminal(120, full=False))
    assert "--full" in hint
