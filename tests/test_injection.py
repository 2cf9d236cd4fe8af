"""Nothing that a capture calls itself gets out as a command: not to a terminal, not into a page, not into a
spreadsheet."""

import argparse
import csv
import io
import json
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kdissect.cli import main, sql
from kdissect.protocol.codec.messages import encode_request, encode_response
from kdissect.replay.results.run_comparison import compare as compare_run
from kdissect.replay.results.run_page import page as run_page
from kdissect.replay.results.run_text import comparison_text, plan_text
from kdissect.report.build import (
    check_upgrade,
    compare,
    find_topic_clients,
)
from kdissect.report.build.build_report import build_report
from kdissect.report.build.page.page_data import make_page_data
from kdissect.report.model.plain import to_plain
from kdissect.report.model.summary import CaptureFacts
from kdissect.report.partials import merge, summarise
from kdissect.report.render import comparison_text as comparison_lines
from kdissect.report.render import report_text, topic_clients_text, upgrade_text
from kdissect.report.render.html.page import render_page
from kdissect.report.render.json import to_json
from kdissect.report.render.terminal import Terminal
from kdissect.tables.arrow_columns import escape_csv_batch
from kdissect.text import FORMULA_STARTS, OBEYED
from tests.helpers import recorded, report_rows
from tests.helpers.handmade_capture import write_capture
from tests.helpers.run_pairs import error, pair, run
from tests.report.findings import test_clients, test_groups, test_network, test_responses, test_security

HOSTILE = (
    "\x1b]0;owned\x07\x1b[31m",
    "\x9b2J\x85",
    "\u202emoc.live\u2066\u200b",
    "<script>alert(1)</script><img src=x onerror=alert(2)>",
    '=cmd|" /C calc"!A0',
    "+1+1",
    "-1-1",
    "@SUM(A1)",
    "\t=1",
    "\r=1\n=2",
)
WIDE = Terminal(200, colour=False, unicode=True, full=True)
ASCII = Terminal(80, colour=False, unicode=False, full=True)
SHOWS_NAMES = {"rebalance_storm", "transactions_open", "authentication_failed", "kafka_4_refuses"}
"""Findings whose title or evidence holds names beside the subject."""

CLOSED = (
    "protocol",
    "status",
    "opened",
    "closed",
    "api_name",
    "error_name",
    "codec",
    "sasl_outcome",
    "tls_outcome",
    "tls_decryption",
    "event",
    "outcome",
    "state",
    "kind",
    "fault",
    "tls_alert",
    "tls_alert_by",
    "client_host",
    "server_host",
    "topic_id",
    "sasl_error",
)


def renamed(batch: pa.RecordBatch, prefixes: Sequence[str] = HOSTILE) -> pa.RecordBatch:
    """Replace every name in a batch of a table by a hostile one; equal names by equal ones."""

    def hostile(name: str | None) -> str | None:
        return None if name is None else prefixes[sum(name.encode()) % len(prefixes)] + name

    columns = [
        pa.array([hostile(name) for name in column.to_pylist()], pa.string())
        if pa.types.is_string(column.type) and field.name not in CLOSED
        else column
        for field, column in zip(batch.schema, batch.columns, strict=True)
    ]
    return pa.record_batch(columns, schema=batch.schema)


@cache
def tables(capture: str = "broker-restart.pcapng") -> list[dict[str, pa.RecordBatch]]:
    _, batches = recorded.dissected(capture)
    return [{name: renamed(batch) for name, batch in some.items()} for some in batches]


@cache
def old_clients() -> Any:
    return check_upgrade.check_upgrade(merge(summarise(batch) for batch in tables("old-broker.pcap")), "4.0")


@cache
def analysed() -> tuple[Any, Any, Any]:
    summary, _, grid = recorded.analyzed("broker-restart.pcapng")
    partial = merge(summarise(batch, grid) for batch in tables())
    facts = replace(summary.capture, files=HOSTILE, warnings=tuple(f"{name}: cut" for name in HOSTILE))
    return build_report(partial, facts), partial, grid


def of_findings(*_: object) -> str:
    """Every finding that a few rows show, with hostile names in its rows."""
    named, shown = set(), []
    for module in (test_clients, test_groups, test_network, test_responses, test_security):
        for case in module.CASES.values():
            hostile = {
                name: pa.Table.from_batches(
                    [renamed(batch, ["".join(HOSTILE[:4])]) for batch in table.to_batches()], table.schema
                )
                for name, table in report_rows.tables(*case.fires[:3]).items()
            }
            summary = build_report(summarise(hostile), CaptureFacts())
            named |= {finding.name for finding in summary.findings}
            shown += [report_text.render(summary, terminal) for terminal in (WIDE, ASCII)]
    assert named >= SHOWS_NAMES
    return "".join(shown)


def of_sql(format: str) -> Callable[[pytest.CaptureFixture[str]], str]:
    def shown(capsys: pytest.CaptureFixture[str]) -> str:
        columns = ["topic", "=1+1", *HOSTILE[:3]]
        rows = [[name, "+x", name, None, 1.5] for name in HOSTILE]
        sql.WRITERS[format](columns, iter(rows), argparse.Namespace(limit=None, color="auto"))
        return capsys.readouterr().out

    return shown


def of_export(_: object) -> str:
    out = io.StringIO()
    writer = csv.writer(out)
    for some in tables():
        for batch in some.values():
            for row in escape_csv_batch(batch).to_pylist():
                writer.writerow("" if value is None else value for value in row.values())
    return out.getvalue()


@cache
def capture(folder: Path) -> Path:
    """A capture whose client, topics, group, broker and error message are hostile."""
    talk: list[tuple[bool, bytes]] = []
    for number, name in enumerate(HOSTILE):
        asks = [
            (
                3,
                1,
                {"topics": [{"name": name}]},
                {
                    "brokers": [{"node_id": 1, "host": name, "port": 1}],
                    "topics": [{"error_code": 3, "name": name, "partitions": []}],
                },
            ),
            (12, 1, {"group_id": name, "generation_id": 1, "member_id": name}, {"error_code": 25}),
            (
                19,
                1,
                {"topics": [], "timeout_ms": 1},
                {"topics": [{"name": name, "error_code": 17, "error_message": name}]},
            ),
            (
                18,
                3,
                {"client_software_name": name, "client_software_version": name},
                {"error_code": 0, "api_keys": []},
            ),
        ]
        for place, (key, version, body, answer) in enumerate(asks):
            correlation = 10 * number + place
            header = {
                "request_api_key": key,
                "request_api_version": version,
                "correlation_id": correlation,
                "client_id": name,
            }
            talk.append((True, encode_request(header, body)))
            talk.append((False, encode_response(key, version, {"correlation_id": correlation}, answer)))
    return write_capture(folder / "hostile.pcap", talk)


def of_dump(*options: str) -> Callable[[pytest.CaptureFixture[str], Path], str]:
    def shown(capsys: pytest.CaptureFixture[str], folder: Path) -> str:
        assert main(["dump", str(capture(folder)), *options]) == 0
        return capsys.readouterr().out

    return shown


def of_messages(capsys: pytest.CaptureFixture[str], folder: Path) -> str:
    """Sentences on standard error: names of files that are not there, are none, or are cut, and wrong
    questions."""
    whole = capture(folder).read_bytes()
    said = []
    for name in (each.replace("/", "|") for each in HOSTILE):
        (folder / name).write_bytes(whole[:-3])
        assert main(["dump", "--limit", "1", str(folder / name)]) == 0
        (folder / name).write_bytes(b"nothing of the kind")
        assert main(["dump", str(folder / name)]) == 2
        assert main(["analyze", str(folder / f"missing {name}")]) == 2
        with suppress(SystemExit):  # a name that looks like an option stops the parser
            assert main(["schema", name]) == 2
        with pytest.raises(SystemExit):
            main(["dump", "--since", name, "x"])
        said.append(capsys.readouterr().err)
        assert len(said[-1].splitlines()) == 5
    return "".join(said)


@cache
def played() -> dict[str, Any]:
    facts = run(2)
    facts["id"] = facts["kdissect"] = HOSTILE[0]
    facts["stopped"] = HOSTILE[1]
    facts["plan"]["capture"]["files"] = list(HOSTILE)
    facts["plan"]["target"]["cluster_id"] = HOSTILE[3]
    facts["plan"]["names"]["topics"] = {name: f"{name}-there" for name in HOSTILE}
    pairs = [pair(0), error(1, 0, 10)]
    for one in pairs:
        name = HOSTILE[one["index"] * 3]
        one |= {"client_id": name, "rewrites": list(HOSTILE), "produced": [[f"{name}-there-0", 1]]}
        one["captured"] |= {"produced": {f"{name}-0": 1}}
        one["captured"]["digest"] = [{"where": f"{name}-0", "error": 0, "offset": 1}]
        one["answers"][0]["digest"] = [{"where": f"{name}-there-0", "error": one["index"] * 10, "offset": 1}]
    return compare_run(facts, pairs)


def planned() -> dict[str, Any]:
    several = list(HOSTILE)
    return {
        "capture": {
            "files": several,
            "requests": 1,
            "connections": 1,
            "headless_connections": 0,
            "client_hosts": 1,
            "cluster_ids": several,
        },
        "target": {"cluster_id": HOSTILE[0], "nodes": dict(enumerate(several))},
        "accounting": {"sent": 1, "skipped": 0, "captured": 1},
        "load": {
            "duration_s": 1.0,
            "peak_requests_per_s": 1.0,
            "peak_bytes_per_s": 1.0,
            "bytes": 1,
            "connections": 1,
            "processes": [1],
            "components": {
                "count": 1,
                "largest": {
                    "share": 1.0,
                    "requests": 1,
                    "bytes": 1,
                    "connections": 1,
                    "ties": [{"kind": "group", "name": name, "connections": 1} for name in several],
                },
            },
        },
        "settings": {"pace": "asap", "speed": 1.0},
        "records": 1,
        "record_bytes": 1,
        "retries": 0,
        "apis": {name: {} for name in several},
        "skipped": [{"requests": 1, "api": name, "bucket": name, "reason": name} for name in several],
        "conversions": [],
        "losses": dict.fromkeys(several, 1),
        "topics": [
            {"topic": name, "target": name, "partitions": 1, "differences": several} for name in several
        ],
        "names": {"groups": {name: name for name in several}, "transactional_ids": {}},
        "timers": [],
        "warnings": several,
    }


def lines(found: Iterable[str]) -> str:
    return "\n".join(found)


TERMINAL: dict[str, Callable[..., str]] = {
    "report": lambda *_: report_text.render(analysed()[0], WIDE),
    "findings": of_findings,
    "report in JSON": lambda *_: to_json(analysed()[0]),
    "who": lambda *_: topic_clients_text.render(
        find_topic_clients.find_topic_clients(analysed()[0], "*"), WIDE
    ),
    "diff": lambda *_: comparison_lines.render(
        compare.compare(
            json.loads(to_json(recorded.analyzed("broker-restart.pcapng")[0])),
            json.loads(to_json(analysed()[0])),
        ),
        WIDE,
    ),
    "ready": lambda *_: upgrade_text.render(old_clients(), WIDE),
    "ready in JSON": lambda *_: json.dumps(to_plain(old_clients())),
    "sql": lambda capsys, _: of_sql("text")(capsys),
    "sql in JSON": lambda capsys, _: of_sql("jsonl")(capsys),
    "dump": of_dump("--records"),
    "dump --brief": of_dump("--brief"),
    "dump in JSON": of_dump("--format", "jsonl"),
    "replay plan": lambda *_: lines(plan_text(planned())),
    "replay compare": lambda *_: lines(comparison_text(played())),
    "messages": of_messages,
}
PAGES: dict[str, Callable[[], str]] = {
    "report": lambda: render_page(make_page_data(*analysed())),
    "replay": lambda: run_page(played()),
}
SHEETS: dict[str, Callable[..., str]] = {"sql": of_sql("csv"), "export": of_export}


@pytest.mark.parametrize("name", TERMINAL)
def test_no_terminal_obeys(name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    shown = TERMINAL[name](capsys, tmp_path)
    assert len(shown) > 100
    obeyed = {one for one in shown if unicodedata.category(one) in OBEYED}
    assert obeyed <= {"\n"}


@pytest.mark.parametrize("name", PAGES)
def test_no_page_runs(name: str) -> None:
    shown = PAGES[name]()
    assert "alert(1)" in shown
    for begin in ("<script>alert", "<img", "</script><img"):
        assert begin not in shown
    assert not {one for one in shown if unicodedata.category(one) in {"Cc", "Zl", "Zp"}} - {"\n"}


@pytest.mark.parametrize("name", SHEETS)
def test_no_spreadsheet_runs(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    cells = [cell for row in csv.reader(io.StringIO(SHEETS[name](capsys), newline="")) for cell in row]
    hostile = [cell for cell in cells if cell.startswith("'")]
    assert len({cell[1] for cell in hostile}) >= 5
    for cell in cells:
        assert not cell.startswith(FORMULA_STARTS) or is_number(cell), cell
        assert not {one for one in cell if unicodedata.category(one) in OBEYED} - {"\n", "\t", "\r"}


def is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
