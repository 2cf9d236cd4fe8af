"""`kdissect diff`: two saved reports without Java, and what is refused."""

import json
import time
from pathlib import Path

import pytest

from tests.helpers.command import kdissect
from tests.helpers.command_here import kdissect_here

REPORT = Path(__file__).parents[2] / "reports" / "broker-restart" / "report.json"


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
    assert kdissect_here("diff", REPORT, later).stdout.startswith("before  captures/broker-restart.pcapng")


@pytest.mark.parametrize(
    ("option", "words"),
    [
        (("--topic", "orders"), "other filters (none)"),
        (("--anonymize",), "applies to captures only"),
        (("--by", "client"), "ranks by api"),
    ],
)
def test_a_kept_report_stays_as_it_was_made(option: tuple[str, ...], words: str) -> None:
    done = kdissect_here("diff", REPORT, REPORT, *option)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr


@pytest.mark.parametrize(
    ("text", "words"),
    [("{", "is not JSON"), ("{}", "is not a report"), ('{"schema_version": 1}', "is not a report")],
)
def test_json_that_is_no_report(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "other.json"
    path.write_text(text)
    done = kdissect_here("diff", path, REPORT)
    assert done.returncode == 2
    assert words in done.stderr
