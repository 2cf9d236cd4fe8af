"""`kdissect sql`: rows as CSV."""

import csv
import io
import json
from pathlib import Path

import pytest

from tests.helpers.command import kdissect

CAPTURES = Path(__file__).parents[2] / "captures"


NEGLECT = CAPTURES / "neglect.pcapng"


@pytest.mark.spark
def test_sql_as_csv() -> None:
    query = (
        "SELECT client_id, count(*) AS calls, '=1+1' AS formula FROM exchanges WHERE api_key = 0 GROUP BY "
        "ALL ORDER BY ALL"
    )
    done = kdissect("sql", query, NEGLECT, "--quiet", "--format", "csv")
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    manifest = json.loads((CAPTURES / "manifest.json").read_text())["captures"]
    (entry,) = (one for one in manifest if one["name"] == "neglect")
    requests = sum(row["requests"] for row in entry["expected"]["requests"] if row["api_name"] == "Produce")
    assert sum(int(row["calls"]) for row in rows) == requests
    assert {row["formula"] for row in rows} == {"'=1+1"}
    assert [row["client_id"] for row in rows] == ["big-writer", "forgetful", "quick-writer"]
