"""Cases of findings: rows in which a rule fires, rows in which it is quiet, and a recorded incident.

A test module of `kdissect.report.findings` has its cases in a dict by the name of the rule, and runs
`check_case` and `check_recorded_case` over it.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from kdissect.capture.index.index import index_captures
from kdissect.capture.inputs import open_inputs
from kdissect.capture.segment_index import PIECES, Counts
from kdissect.report.build.build_report import build_report
from kdissect.report.model.findings import Finding
from kdissect.report.partials import merge, summarise
from kdissect.spark import tasks
from kdissect.spark.capture_facts import capture_facts
from kdissect.tables.build import dissect_batches
from tests.helpers.report_rows import report

CAPTURES = Path(__file__).parents[2] / "captures"


class FindingCase(NamedTuple):
    """Test case of one rule. `fires` and `quiet` are arguments of `report_rows.report`."""

    fires: tuple[Any, ...]
    quiet: tuple[Any, ...]
    incident: str  # a recorded capture in which it is found; captures/README.md says what happened in each
    healthy: str = "steady.pcapng"  # a recorded capture in which it is not found


def check_case(name: str, case: FindingCase) -> None:
    """Check that a rule fires on its rows, with evidence that adds up, and that it is quiet on the others."""
    fires, quiet = (report(*rows) for rows in (case.fires, case.quiet))
    findings = {finding.name: finding for finding in fires.findings}
    assert name in findings
    assert name not in {finding.name for finding in quiet.findings}
    finding = findings[name]
    assert finding.count == sum(row.count for row in finding.evidence) > 0
    assert finding.evidence[0].subject
    assert finding.means
    assert finding.next


def check_recorded_case(name: str, case: FindingCase) -> None:
    """Check that a rule fires on its recorded incident and is quiet on a healthy capture."""
    assert name in findings_of(case.incident)
    assert name not in findings_of(case.healthy)


@cache
def findings_of(capture: str) -> dict[str, Finding]:
    """Return the findings of a recorded capture by name."""
    seen = index_captures(open_inputs([str(CAPTURES / capture)], "").files, 1 << 30)
    ordinals = [pa.record_batch({"split": [split.index]}) for split in seen.splits]
    pieces = pa.Table.from_batches(tasks.scan_step(ordinals, seen.splits, ()), PIECES)
    partial = merge(map(summarise, dissect_batches(pieces.to_batches(), seen.splits)))
    facts = capture_facts(seen, Counts(packets=seen.packets))
    return {finding.name: finding for finding in build_report(partial, facts).findings}


def manifest_entry(capture: str) -> dict[str, Any]:
    """Return what brokers, clients and the tools that recorded a capture said about it."""
    entries = json.loads((CAPTURES / "manifest.json").read_text())["captures"]
    (entry,) = (entry for entry in entries if entry["file"] == capture)
    return dict(entry)
