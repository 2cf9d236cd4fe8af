"""The page is one file that runs only its own script, whatever names a capture has."""

import base64
import hashlib
import json
import re
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from kdissect.report.build.build_report import build_report
from kdissect.report.build.page.example_panel import MOST_FOR_EXAMPLES
from kdissect.report.build.page.page_data import make_page_data
from kdissect.report.model.summary import CaptureFacts
from kdissect.report.partials import (
    EMPTY,
    merge,
    summarise,
)
from kdissect.report.render.html.page import asset, content_security_policy, render_page, static_style
from kdissect.report.timeline.grid import grid_over
from kdissect.tables.anonymize import Pseudonyms
from tests.helpers import recorded
from tests.helpers import synthetic_tables as synthetic
from tests.report.random_page import random_page

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\u2028&amp;%%script%%"


def with_hostile_names(tables):
    """Call a topic what no topic should be called."""
    partitions = tables["partitions"]
    topic = pa.array([HOSTILE if name == "topic-1" else name for name in partitions["topic"].to_pylist()])
    return tables | {
        "partitions": partitions.set_column(partitions.schema.get_field_index("topic"), "topic", topic)
    }


@pytest.fixture(scope="module")
def hostile_page():
    tables, grid, _, _ = random_page()
    tables = with_hostile_names(tables)
    partial = summarise(tables, grid)
    summary = build_report(partial, CaptureFacts(files=("a.pcap", "b.pcapng", HOSTILE)))
    return render_page(make_page_data(summary, partial, grid))


def test_only_the_page_s_own_script_and_style_may_run(hostile_page):
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', hostile_page)[1].replace(
        "&#x27;", "'"
    )
    for kind, tag in (("script-src", "script"), ("style-src", "style")):
        (text,) = re.findall(f"<{tag}>(.*?)</{tag}>", hostile_page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind} 'sha256-{digest}';" in policy
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    assert "http" not in policy


def test_nothing_in_the_page_points_outside(hostile_page):
    addresses = set(re.findall(r"https?://[^\s\"'`<>]+", hostile_page))
    assert addresses <= {"http://www.w3.org/2000/svg"}
    assert not re.search(
        r"<(link|img|iframe|object|embed|script)[^>]*(src|href)=(?!\"data:,\")", hostile_page
    )
    assert not re.search(
        r"\b(fetch|XMLHttpRequest|WebSocket|EventSource|sendBeacon|import)\s*\(", hostile_page
    )
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function", hostile_page
    )


def test_a_hostile_name_cannot_leave_the_data(hostile_page):
    (text,) = re.findall('<script type="application/json" id="data">(.*?)</script>', hostile_page, re.DOTALL)
    assert "<" not in text
    data = json.loads(text)
    assert HOSTILE in [row["name"] for row in data["topics"]]
    assert hostile_page.count("<script") == 2


def test_the_same_captures_give_the_same_page():
    one, other = (
        render_page(make_page_data(summary, partial, grid))
        for _, grid, summary, partial in (random_page(), random_page())
    )
    assert one == other


def test_an_empty_capture_has_a_page():
    page = render_page(make_page_data(build_report(EMPTY, CaptureFacts()), EMPTY, grid_over(None, None)))
    assert page.endswith("</html>\n")


def test_small():
    assert len(recorded.page("rebalances.pcapng")) < 600_000 + MOST_FOR_EXAMPLES


def test_the_same_page_however_the_work_was_divided():
    tables, grid, summary, partial = random_page()
    rng = np.random.default_rng(9)
    dealt = synthetic.in_batches(rng, {name: table for name, table in tables.items() if name != "ends"}, 5)
    parts = [summarise(part | {"ends": tables["ends"]}, grid) for part in dealt]
    merged = merge([merge(parts[3:]), merge(parts[:3])])
    assert render_page(make_page_data(build_report(merged, summary.capture), merged, grid)) == render_page(
        make_page_data(summary, partial, grid)
    )


def test_an_anonymous_page_has_no_name_of_the_capture():
    _, batches = recorded.dissected("rebalances.pcapng")
    _, _, grid = recorded.analyzed("rebalances.pcapng")
    hidden = Pseudonyms.new("key")
    partial = merge(summarise(hidden.tables(batch), grid) for batch in batches)
    facts = recorded.analyzed("rebalances.pcapng")[0].capture
    files = tuple(hidden.name("capture", file) or "" for file in facts.files)
    page = render_page(make_page_data(build_report(partial, replace(facts, files=files)), partial, grid))
    groups = recorded.rows("rebalances.pcapng", "group_events")
    names = {
        row[name] for row in groups for name in ("group_id", "client_id", "member_id", "reason") if row[name]
    }
    assert len(names) > 40
    assert [name for name in names | {"127.0.0.1", "rebalances.pcapng"} if name in page] == []
    assert len(make_page_data(build_report(partial, facts), partial, grid)["groups"]["rows"]) == 6


def test_a_page_without_a_script_is_dark_where_the_system_is():
    style = static_style()
    assert "@media screen and (prefers-color-scheme: dark)" in style
    assert '[data-theme="dark"] {\n' not in style.split("@media screen")[0]
    assert len(style) > 1000


def test_the_policy_names_the_hashes_of_style_and_script():
    expected = base64.b64encode(hashlib.sha256(b"a{}").digest()).decode()
    policy = content_security_policy("a{}")
    assert policy.startswith("default-src 'none'; ")
    assert f"style-src 'sha256-{expected}'" in policy
    assert "script-src" not in policy
    assert "script-src 'sha256-" in content_security_policy("a{}", "x()")


def test_assets_are_text():
    assert "%%data%%" in asset("page.html")
