"""`kdissect export`: what is written, where, and what is refused."""

import csv
import io
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyarrow.parquet import read_table

from kdissect.spark.session import Engine
from tests.helpers.command import kdissect
from tests.helpers.command_here import kdissect_here
from tests.helpers.tiers import thorough_after

ROOT = Path(__file__).parents[2]


CAPTURE = ROOT / "captures" / "cluster-life.pcapng"


def test_port_narrows() -> None:
    done = kdissect_here("analyze", "--quiet", "--port", "9", CAPTURE)
    assert (done.returncode, done.stdout) == (2, "")
    assert "holds no TCP packets on port 9" in done.stderr


def test_export_refuses_to_replace_and_then_does(engine: Engine, tmp_path: Path) -> None:
    out = tmp_path / "tables"
    arguments = ("export", CAPTURE, "--table", "connections", "--out", out)
    assert kdissect_here(*arguments, engine=engine).returncode == 0
    assert read_table(out / "connections").column_names[:2] == ["connection", "client_host"]
    again = kdissect_here(*arguments, engine=engine)
    assert (again.returncode, again.stdout) == (2, "")
    assert "is not empty" in again.stderr
    assert kdissect(*arguments, "--overwrite", "--quiet").stderr == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tables", "temporary"]


def test_export_to_standard_output_with_times_that_people_read(engine: Engine) -> None:
    arguments = ("export", CAPTURE, "--table", "connections", "--format", "csv", "--out", "-", "--quiet")
    numbers, texts = (
        list(csv.DictReader(io.StringIO(kdissect_here(*arguments, "--times", kind, engine=engine).stdout)))
        for kind in ("ns", "iso")
    )
    assert len(numbers) == len(texts) > 3
    for number, text in zip(numbers, texts, strict=True):
        seconds, ns = divmod(int(number["first_time_ns"]), 10**9)
        expected = f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{ns:09d}Z"
        assert text["first_time_ns"] == expected
        assert text["server_rtt_ns"] == number["server_rtt_ns"]


@pytest.mark.spark
@pytest.mark.parametrize("format", thorough_after(1, ["jsonl", "parquet"]))
def test_export_to_one_file(format: str, tmp_path: Path) -> None:
    out = tmp_path / "tables"
    done = kdissect("export", CAPTURE, "--table", "exchanges", "--one-file", "--format", format, "--out", out)
    assert done.returncode == 0, done.stderr
    assert [path.name for path in out.iterdir()] == [f"exchanges.{format}"]
    file = out / f"exchanges.{format}"
    rows = read_table(file).num_rows if format == "parquet" else len(file.read_text().splitlines())
    assert rows > 100


def test_several_tables_do_not_fit_standard_output() -> None:
    done = kdissect_here("export", CAPTURE, "--table", "all", "--format", "csv", "--out", "-")
    assert (done.returncode, done.stderr) == (
        2,
        "kdissect: --out - takes one --table, and --format csv or jsonl\n",
    )


def test_what_no_export_wrote_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "exchanges").mkdir()
    (tmp_path / "letters.txt").write_text("dear")
    done = kdissect_here("export", CAPTURE, "--table", "exchanges", "--out", tmp_path, "--overwrite")
    assert done.returncode == 2
    assert "holds letters.txt, which is no table" in done.stderr
    assert (tmp_path / "letters.txt").exists()
