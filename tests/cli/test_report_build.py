"""A report with filters, pseudonyms and conditions."""

import json
from pathlib import Path

import jsonschema
import pytest

from kdissect.report.render.json import json_schema
from tests.helpers.command import kdissect

CAPTURES = Path(__file__).parents[2] / "captures"


NEGLECT = CAPTURES / "neglect.pcapng"


@pytest.mark.spark
def test_a_report_that_is_narrowed_anonymous_and_bad_news() -> None:
    done = kdissect(
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
