"""`kdissect analyze`: the report, where it is written, and what it agrees with."""

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest

from kdissect.errors import ExitCode
from kdissect.spark.session import Engine
from tests.helpers.command import COMMAND, WITHOUT_SPARK, assert_one_sentence, environment, kdissect
from tests.helpers.command_here import kdissect_here

ROOT = Path(__file__).parents[2]


CAPTURE = ROOT / "captures" / "cluster-life.pcapng"


@pytest.mark.parametrize("command", [["analyze"], ["export", "--table", "exchanges"]])
def test_output_that_cannot_be_written_is_told_before_the_work(tmp_path: Path, command: list[str]) -> None:
    (tmp_path / "file").write_text("in the way")
    done = kdissect_here(command[0], CAPTURE, *command[1:], "--out", tmp_path / "file" / "below")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"kdissect: cannot write to {tmp_path}/file/below: not a directory")
    assert_one_sentence(done.stderr)  # no word of the capture


def test_a_page_that_cannot_be_written_is_told_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    for page, why in ((tmp_path, "it is a directory"), (tmp_path / "file" / "page.html", "not a directory")):
        done = kdissect_here("analyze", CAPTURE, "--html", page)
        assert (done.returncode, done.stdout) == (2, "")
        assert why in done.stderr
        assert_one_sentence(done.stderr)


@pytest.fixture(scope="module")
def analyzed(tmp_path_factory: pytest.TempPathFactory) -> tuple[subprocess.CompletedProcess[str], Path]:
    """Return the outcome of `kdissect analyze CAPTURE --out DIR`, and DIR."""
    folder = tmp_path_factory.mktemp("analyzed") / "report"
    done = kdissect("analyze", CAPTURE, "--out", folder)
    assert done.returncode == 0, done.stderr
    return done, folder


@pytest.mark.spark
def test_report_on_standard_output_and_in_a_directory(
    analyzed: tuple[subprocess.CompletedProcess[str], Path],
) -> None:
    done, folder = analyzed
    written = json.loads((folder / "report.json").read_text())
    assert written["totals"]["exchanges"] > 0
    assert sorted(path.name for path in folder.iterdir()) == ["report.json", "report.txt"]
    assert "Produce" in done.stdout
    assert "Produce" in (folder / "report.txt").read_text()
    assert f"{CAPTURE}: pcapng" in done.stderr
    assert "WARN" not in done.stderr
    assert "log4j" not in done.stderr


@pytest.mark.spark
def test_temporary_files_may_lie_deep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No address of a socket has room for such a TMPDIR."""
    deep = tmp_path / ("a" * 90) / ("b" * 90)
    deep.mkdir(parents=True)
    monkeypatch.setenv("TMPDIR", str(deep))
    done = kdissect("analyze", "--quiet", str(CAPTURE))
    assert done.returncode == 0, done.stderr
    assert not list(deep.iterdir())


@pytest.mark.thorough
def test_input_may_be_a_stream(analyzed: tuple[subprocess.CompletedProcess[str], Path]) -> None:
    plain = json.loads((analyzed[1] / "report.json").read_text())
    streamed = kdissect("analyze", "--quiet", "--format", "json", "-", stdin=CAPTURE.read_bytes())
    assert streamed.stderr == ""
    for part in ("totals", "apis", "clients", "brokers", "topics"):
        found, expected = json.loads(streamed.stdout)[part], plain[part]
        assert without_files(found) == without_files(expected)


def without_files(value: object) -> object:
    """Leave out the name of the capture, which a stream does not have."""
    if isinstance(value, dict):
        return {name: without_files(inner) for name, inner in value.items() if name != "capture_file"}
    return [without_files(inner) for inner in value] if isinstance(value, list) else value


@pytest.mark.spark
def test_latencies_are_those_of_the_exported_exchanges(
    analyzed: tuple[subprocess.CompletedProcess[str], Path], engine: Engine, tmp_path: Path
) -> None:
    """Numpy over the exported rows gives the figures of the report: exactly, or as near as its percentiles
    promise."""
    how = ("--table", "exchanges", "--out", tmp_path / "tables", "--quiet")
    done = kdissect_here("export", CAPTURE, *how, engine=engine)
    assert done.returncode == 0, done.stderr
    rows = pyarrow.parquet.read_table(tmp_path / "tables" / "exchanges")
    latency = rows["latency_ns"].cast("float64").fill_null(np.nan).to_numpy()
    key, version = (rows[name].fill_null(-1).to_numpy() for name in ("api_key", "api_version"))
    wait = rows["wait_ns"].cast("float64").fill_null(0).to_numpy()
    idle = rows["idle_wait"].fill_null(False).to_numpy()
    told = 0
    report = json.loads((analyzed[1] / "report.json").read_text())
    for api in (report["totals"], *report["apis"]):
        chosen = ~np.isnan(latency)
        if "api_key" in api:
            chosen &= (key == api["api_key"]) & (version == api["api_version"])
        for kind, some in (("service", (latency - wait)[chosen & ~idle]), ("idle", latency[chosen & idle])):
            if not len(some):
                assert api[kind] is None
                continue
            exact = (len(some), some.sum(), some.min(), some.max(), round(some.mean()))
            assert (
                tuple(api[kind][name] for name in ("count", "sum_ns", "min_ns", "max_ns", "mean_ns")) == exact
            )
            for name, share in (("p50_ns", 0.5), ("p90_ns", 0.9), ("p99_ns", 0.99), ("p99_9_ns", 0.999)):
                nearest = np.quantile(some, share, method="inverted_cdf")
                assert api[kind][name] == pytest.approx(nearest, rel=0.004), (api.get("api_name"), name)
            told += 1
    assert told > 20


@pytest.mark.slow
def test_files_and_conditions_do_not_depend_on_the_reader_of_the_report(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    command = [
        *COMMAND,
        "analyze",
        "--quiet",
        CAPTURE,
        "--html",
        tmp_path / "page.html",
        "--fail-on",
        "any=note",
    ]
    done = subprocess.run(command, stdout=write, env=environment(**WITHOUT_SPARK), check=False)
    os.close(write)
    assert done.returncode == ExitCode.CONDITION_MET
    assert (tmp_path / "page.html").exists()
