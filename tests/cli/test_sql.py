"""`kdissect sql`: rows as CSV."""

import argparse
import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from kdissect.cli.sql import WRITERS, write_rows
from kdissect.spark.session import Engine
from tests.helpers.command import assert_one_sentence, kdissect
from tests.helpers.command_here import kdissect_here

CAPTURES = Path(__file__).parents[2] / "captures"


NEGLECT = CAPTURES / "neglect.pcapng"


def test_csv_has_all_digits_and_a_table_six(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [[1_790_000_000.123456, 1234567.5]]
    shown = {}
    for name in ("csv", "text"):
        WRITERS[name](["a", "b"], iter(rows), argparse.Namespace(limit=None, color="never"))
        shown[name] = capsys.readouterr().out.split()
    assert shown["csv"] == ["a,b", "1790000000.123456,1234567.5"]
    assert shown["text"] == ["a", "b", "1.79e+09", "1.23457e+06"]


def test_json_has_null_where_it_has_no_number(capsys: pytest.CaptureFixture[str]) -> None:
    nan, far = float("nan"), float("-inf")
    WRITERS["jsonl"](["a", "b"], iter([[nan, {"c": [far, 1.5]}]]), argparse.Namespace(limit=None))
    assert capsys.readouterr().out == '{"a": null, "b": {"c": [null, 1.5]}}\n'
    WRITERS["csv"](["a", "b"], iter([[nan, [far]]]), argparse.Namespace(limit=None))
    assert capsys.readouterr().out.splitlines()[1] == "nan,[null]"


@pytest.mark.parametrize("name", WRITERS)
def test_bytes_are_hexadecimal_digits(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    frame = SimpleNamespace(
        columns=["a", "b"], toLocalIterator=lambda: iter([(bytearray(b"\xca\xfe"), [b"\0", None])])
    )
    write_rows(frame, argparse.Namespace(format=name, limit=None, color="never"))
    shown = capsys.readouterr().out
    assert "cafe" in shown
    assert "00" in shown
    assert "b'" not in shown


def test_rows_that_nobody_reads_are_let_go_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    let_go = []

    def rows() -> Iterator[list[int]]:
        try:
            yield from [[1], [2]]
        finally:
            let_go.append(True)

    def is_closed(_text: str) -> int:
        raise BrokenPipeError

    monkeypatch.setattr("sys.stdout", SimpleNamespace(write=is_closed))
    frame = SimpleNamespace(columns=["a"], toLocalIterator=rows)
    with pytest.raises(BrokenPipeError) as raised:
        write_rows(frame, argparse.Namespace(format="jsonl", limit=None))
    assert let_go
    assert raised.tb  # which holds the frames of all functions


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


def test_a_query_from_elsewhere_starts_no_program(engine: Engine, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    query = f"SELECT TRANSFORM(1) USING 'touch {mark}' AS x"
    done = kdissect_here("sql", query, NEGLECT, "--quiet", engine=engine)
    assert done.returncode == 2
    assert_one_sentence(done.stderr)
    assert "not a SELECT over the tables of the captures (it has ScriptTransformation)" in done.stderr
    assert not mark.exists()


@pytest.mark.spark
@pytest.mark.thorough  # that others are refused is shown by tests/spark/test_select_check.py
def test_unrestricted_sql_reads_files(tmp_path: Path) -> None:
    letter = tmp_path / "letter"
    letter.write_text("dear")
    arguments = ("sql", f"SELECT value FROM text.`{letter}`", NEGLECT, "--quiet", "--format", "csv")
    done = kdissect(*arguments, "--unrestricted-sql")
    assert (done.returncode, done.stdout.split()) == (0, ["value", "dear"]), done.stderr


def test_a_wrong_column_is_refused_before_the_capture_is_read(engine: Engine) -> None:
    done = kdissect_here("sql", "SELECT latency FROM exchanges", NEGLECT, engine=engine)
    assert done.returncode == 2
    assert "wrong SQL" in done.stderr
    assert "`latency_ns`" in done.stderr
    assert "packets" not in done.stderr  # what the index of the capture says


def test_where_a_table_waits_is_not_told(engine: Engine) -> None:
    query = "SELECT _metadata.file_path FROM exchanges"
    refused = kdissect_here("sql", query, NEGLECT, "--quiet", engine=engine)
    assert refused.returncode == 2
    assert_one_sentence(refused.stderr)
    assert "`_metadata`" in refused.stderr


@pytest.mark.spark
def test_nothing_remains_of_a_query_that_fails(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    failed = kdissect("sql", "SELECT raise_error('no') FROM exchanges", NEGLECT, "--quiet", TMPDIR=str(own))
    assert failed.returncode != 0
    assert "Traceback" not in failed.stderr
    assert not list(own.iterdir())


def test_records_are_rows(engine: Engine) -> None:
    query = (
        "SELECT topic, get_json_object(value, '$.sender') AS sender, count(*) AS n FROM records "
        "WHERE value_format = 'json' GROUP BY ALL ORDER BY ALL"
    )
    how = (CAPTURES / "pause.pcapng", "--quiet", "--format", "csv")
    done = kdissect_here("sql", query, *how, engine=engine)
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert "orders-rdkafka" in {row["sender"] for row in rows}
    assert {row["topic"] for row in rows} >= {"orders"}
    query = "SELECT DISTINCT key, value FROM records"
    hidden = kdissect_here("sql", query, *how, "--anonymize", engine=engine)
    assert hidden.stdout.split() == ["key,value", ","]
