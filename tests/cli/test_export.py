"""`kdissect export`: what is written, where, and what is refused."""

import csv
import io
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyarrow.parquet import read_table

from tests.helpers.command import kdissect

ROOT = Path(__file__).parents[2]


CAPTURE = ROOT / "captures" / "cluster-life.pcapng"


@pytest.mark.spark
def test_port_narrows(tmp_path: Path) -> None:
    done = kdissect("analyze", "--quiet", "--port", "9", CAPTURE)
    assert (done.returncode, done.stdout) == (2, "")
    assert "holds no TCP packets on port 9" in done.stderr


@pytest.mark.spark
def test_export_refuses_to_replace_and_then_does(tmp_path: Path) -> None:
    out = tmp_path / "tables"
    arguments = ("export", CAPTURE, "--table", "connections", "--format", "csv", "--out", out)
    assert kdissect(*arguments).returncode == 0
    rows = [line for path in (out / "connections").iterdir() for line in path.read_text().splitlines()]
    assert rows[0].startswith("connection,client_host,client_port")
    again = kdissect(*arguments)
    assert (again.returncode, again.stdout) == (2, "")
    assert "is not empty" in again.stderr
    assert kdissect(*arguments, "--overwrite", "--quiet").stderr == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tables", "temporary"]


@pytest.mark.spark
def test_export_to_standard_output_with_times_that_people_read() -> None:
    arguments = ("export", CAPTURE, "--table", "connections", "--format", "csv", "--out", "-", "--quiet")
    numbers, texts = (
        list(csv.DictReader(io.StringIO(kdissect(*arguments, "--times", kind).stdout)))
        for kind in ("ns", "iso")
    )
    assert len(numbers) == len(texts) > 3
    for number, text in zip(numbers, texts, strict=True):
        seconds, ns = divmod(int(number["first_time_ns"]), 10**9)
        expected = f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{ns:09d}Z"
        assert text["first_time_ns"] == expected
        assert text["server_rtt_ns"] == number["server_rtt_ns"]


@pytest.mark.spark
@pytest.mark.parametrize("format", ["parquet", "jsonl"])
def test_export_to_one_file(format: str, tmp_path: Path) -> None:
    out = tmp_path / "tables"
    done = kdissect("export", CAPTURE, "--table", "exchanges", "--one-file", "--format", format, "--out", out)
    assert done.returncode == 0, done.stderr
    assert [path.name for path in out.iterdir()] == [f"exchanges.{format}"]
    file = out / f"exchanges.{format}"
    rows = read_table(file).num_rows if format == "parquet" else len(file.read_text().splitlines())
    assert rows > 100


def test_several_tables_do_not_fit_standard_output() -> None:
    done = kdissect("export", CAPTURE, "--table", "all", "--format", "csv", "--out", "-")
    assert (done.returncode, done.stderr) == (
        2,
        "kdissect: --out - takes one --table, and --format csv or jsonl\n",
    )
