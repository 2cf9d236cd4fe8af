"""A report with filters, pseudonyms and conditions."""

import json
from pathlib import Path
from queue import Queue

import jsonschema
import pytest

from kdissect.cli.report_build import LOOPS_LOADED_FROM, _load_loops_beside
from kdissect.jit import rows
from kdissect.report.aggregate import group_loops
from kdissect.report.render.json import json_schema
from tests.helpers.command_here import kdissect_here

CAPTURES = Path(__file__).parents[2] / "captures"


NEGLECT = CAPTURES / "neglect.pcapng"


@pytest.mark.parametrize(("connections", "loaded"), [(LOOPS_LOADED_FROM - 1, 0), (LOOPS_LOADED_FROM, 1)])
def test_loops_are_loaded_ahead_for_many_connections(
    monkeypatch: pytest.MonkeyPatch, connections: int, loaded: int
) -> None:
    calls = Queue[None]()
    monkeypatch.setattr(rows, "COMPILED", True)
    monkeypatch.setattr(group_loops, "call_all", lambda: calls.put(None))
    _load_loops_beside(connections)
    for _ in range(loaded):
        calls.get(timeout=30)
    assert calls.empty()


@pytest.mark.slow
def test_a_report_that_is_narrowed_anonymous_and_bad_news() -> None:
    done = kdissect_here(
        "analyze",
        NEGLECT,
        "--quiet",
        "--format",
        "json",
        "--topic",
        "notes",
        "--since",
        "+0s",
        "--anonymize",
        "--fail-on",
        "records_too_large=warning",
        "--fail-on",
        "produce.errors>90%",
        "--fail-on",
        "any=critical",
    )
    assert done.returncode == 3
    assert len(done.stderr.splitlines()) == 2
    assert "big-writer" not in done.stdout + done.stderr
    assert "notes" not in done.stdout + done.stderr
    report = json.loads(done.stdout)
    jsonschema.Draft202012Validator(json_schema()).validate(report)
    assert [row["option"] for row in report["filters"]] == ["--topic", "--since"]
    assert {topic["topic"] for topic in report["topics"]} == {report["filters"][0]["values"][0]}
    produce = next(row for row in report["profile"]["rows"] if row["label"] == "Produce")
    assert produce["error_responses"] == produce["exchanges"] == 6  # six records, all too large
