"""Filters, questions and conditions on the command line: what is refused at once, and what a run of each
says."""

import csv
import io
import json
import subprocess
import sys
import time
from pathlib import Path

import jsonschema
import pytest

from kdissect.capture.formats.decompress import DECOMPRESSORS
from kdissect.capture.formats.file_types import (
    BEGINNINGS,
    InputError,
    check_paths,
)
from kdissect.capture.formats.pcap import MAGICS
from kdissect.capture.formats.pcapng import SECTION_MAGIC
from kdissect.cli.filter_options import (
    TimeArgument,
    duration_argument,
    time_argument,
)
from kdissect.report.render.json import json_schema
from tests.helpers.command import environment, kdissect

CAPTURES = Path(__file__).parents[1] / "captures"
NEGLECT = CAPTURES / "neglect.pcapng"
REPORT = Path(__file__).parents[1] / "reports" / "broker-restart" / "report.json"

WRONG: list[tuple[list[str | Path], str]] = [
    (["analyze", "--by", "moon", NEGLECT], "invalid choice: 'moon'"),
    (["analyze", "--fail-on", "slow=warning", NEGLECT], "'slow' is not a finding"),
    (["analyze", "--fail-on", "produce.p99>5", NEGLECT], "compared with a time"),
    (["analyze", "--api", "Produzieren", NEGLECT], "'Produzieren' is not an API of Kafka"),
    (
        ["export", "--error", "OOPS", NEGLECT, "--table", "all", "--out", "x"],
        "'OOPS' is not an error of Kafka",
    ),
    (["sql", "SELECT 1", NEGLECT, "--since", "2026-11-21T04:00:00"], "is not a time with a zone"),
    (["who", "orders", NEGLECT, "--until", "tomorrow"], "is not a time with a zone"),
    (["who", "ord*", NEGLECT, "--anonymize"], "TOPIC must be a full name"),
    (["ready", "--for", "3.0", NEGLECT], "invalid choice: '3.0'"),
    (["diff", NEGLECT], "required: AFTER"),
    (["diff", REPORT, "nowhere.pcap"], "nowhere.pcap: no such file or directory"),
    (["sql", "SELECT 1", "nowhere.pcap"], "nowhere.pcap: no such file or directory"),
    (["who", "orders", Path(__file__)], "is not a packet capture"),
]


@pytest.mark.parametrize(("arguments", "words"), WRONG, ids=[words for _, words in WRONG])
def test_what_cannot_be_is_one_sentence_before_java_starts(
    arguments: list[str | Path], words: str, tmp_path: Path
) -> None:
    no_java = {"JAVA_HOME": "", "PATH": str(tmp_path)}
    done = kdissect(*arguments, **no_java)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
    assert "Java" not in done.stderr


def test_beginnings_are_those_that_the_readers_know(tmp_path: Path) -> None:
    known = {*MAGICS, SECTION_MAGIC}
    assert known <= set(BEGINNINGS)
    assert all(any(magic.startswith(begin) for begin in BEGINNINGS) for magic in DECOMPRESSORS)
    path = tmp_path / "some.pcap"
    for begin in BEGINNINGS:
        path.write_bytes(begin + bytes(30))
        check_paths([str(path), "-", str(tmp_path)])
    for contents, words in ((b"", "is empty"), (b"PK\x03\x04" + bytes(9), "a zip archive")):
        path.write_bytes(contents)
        with pytest.raises(InputError, match=words):
            check_paths([str(path)])


def test_a_glance_at_paths_loads_nothing_that_takes_time() -> None:
    loaded = (
        "import sys, kdissect.capture.formats.file_types; print({'numpy', 'numba', 'pyarrow'} & "
        "set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", loaded], capture_output=True, env=environment(), check=True, text=True
    )
    assert done.stdout == "set()\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("+30s", TimeArgument("+30s", True, 30 * 10**9)),
        ("5m", TimeArgument("5m", True, 300 * 10**9)),
        ("+1.5ms", TimeArgument("+1.5ms", True, 1_500_000)),
        ("2026-11-21T04:00:00Z", TimeArgument("2026-11-21T04:00:00Z", False, 1_795_233_600_000_000_000)),
        (
            "2026-11-21T05:00:00+01:00",
            TimeArgument("2026-11-21T05:00:00+01:00", False, 1_795_233_600_000_000_000),
        ),
        (
            "2026-11-21T04:00:00.25Z",
            TimeArgument("2026-11-21T04:00:00.25Z", False, 1_795_233_600_250_000_000),
        ),
    ],
)
def test_times(text: str, expected: TimeArgument) -> None:
    assert time_argument(text) == expected
    assert expected.absolute(7) == expected.time_ns + (7 if expected.from_start else 0)
    assert duration_argument("2h") == 7200 * 10**9


def test_two_kept_reports_are_compared_without_java(tmp_path: Path) -> None:
    later = tmp_path / "later.json"
    later.write_text(REPORT.read_text().replace('"kafka-python"', '"kafka-python-ng"'))
    began = time.monotonic()
    done = kdissect("diff", REPORT, later, "--format", "json", PATH=str(tmp_path), JAVA_HOME="")
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - began < 60
    compared = json.loads(done.stdout)
    assert [change["subject"] for change in compared["clients"]] == ["orders-python"]
    assert {one["verdict"] for row in compared["rows"] for one in row["percentiles"]} <= {
        "no difference shown", "too few values",
    }  # fmt: skip
    assert kdissect("diff", REPORT, later).stdout.startswith("before  captures/broker-restart.pcapng")


@pytest.mark.parametrize(
    ("option", "words"),
    [
        (("--topic", "orders"), "other filters (none)"),
        (("--anonymize",), "applies to captures only"),
        (("--by", "client"), "ranks by api"),
    ],
)
def test_a_kept_report_stays_as_it_was_made(option: tuple[str, ...], words: str) -> None:
    done = kdissect("diff", REPORT, REPORT, *option)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr


@pytest.mark.parametrize(
    ("text", "words"),
    [("{", "is not JSON"), ("{}", "is not a report"), ('{"schema_version": 1}', "is not a report")],
)
def test_json_that_is_no_report(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "other.json"
    path.write_text(text)
    done = kdissect("diff", path, REPORT)
    assert done.returncode == 2
    assert words in done.stderr


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
        "--anonymize-key",
        "a",
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
