"""On a Spark Connect server whose Python knows nothing of kdissect: the same report and the same rows."""

import json
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

import kdissect as package
from kdissect.capture.index.index import index_captures
from kdissect.capture.index.splits import Split
from kdissect.capture.inputs import open_inputs
from kdissect.report.build.build_report import build_report
from kdissect.report.model.summary import CaptureFacts
from kdissect.spark import connect, jobs
from kdissect.spark.analysis_work import AnalysisWork
from kdissect.spark.connect import ConnectEngine, ConnectError
from kdissect.spark.queries import check_query, check_syntax, run_query
from kdissect.spark.session import Engine
from kdissect.spark.spark_settings import SparkSettings
from kdissect.spark.task_tables import TableOptions
from kdissect.tables.filters import Filter
from kdissect.tables.schemas import TABLES
from tests.helpers.command import interrupted, kdissect
from tests.helpers.spark_cluster import ConnectServer
from tests.spark.conftest import CAPTURES, Tables, in_order

pytestmark = pytest.mark.spark

REPORTED = CAPTURES / "pause.pcapng"
SMALL = CAPTURES / "cluster-life.pcapng"
SOURCES = Path(package.__file__).parents[1]
Whole = Callable[[Path], Tables]
SplitsOf = Callable[..., tuple[Split, ...]]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    with ConnectServer(tmp_path_factory.mktemp("connect")) as started:
        yield started


@pytest.fixture(scope="module")
def far(server: ConnectServer) -> Iterator[ConnectEngine]:
    with ConnectEngine.start(SparkSettings(server.master)) as engine:
        yield engine


def test_the_same_report(server: ConnectServer, tmp_path: Path) -> None:
    arguments = ["analyze", REPORTED, "--format", "json", "--quiet", "--split-bytes", "60k"]
    there = kdissect(*arguments, "--remote", server.master)
    assert (there.returncode, there.stderr) == (0, "")
    trap, sprung = tmp_path / "pandas.py", tmp_path / "sprung"
    trap.write_text(f"open({str(sprung)!r}, 'w')\n")
    here = kdissect(*arguments, PYTHONPATH=f"{tmp_path}:{SOURCES}")
    assert json.loads(there.stdout) == json.loads(here.stdout)
    assert not sprung.exists(), "pandas is slow to import, and only for Spark Connect"


@pytest.mark.thorough
def test_the_same_tables(far: ConnectEngine, whole: Whole) -> None:
    session = far.session()
    found = package.tables(session, SMALL)
    for name, table in whole(SMALL).items():
        rows = getattr(found, name).toArrow().cast(TABLES[name])
        assert in_order(rows).equals(in_order(table)), name
    query = "SELECT count(*) FROM exchanges WHERE api_key = 0"
    check_syntax(session, query)
    with pytest.raises(ValueError, match="wrong SQL"):
        check_syntax(session, "SELEC 1")
    ((produced,),) = run_query(session, {"exchanges": found.exchanges}, query).collect()
    assert produced == whole(SMALL)["exchanges"]["api_key"].to_pylist().count(0) > 0


def test_a_query_is_checked_before_the_server_sees_it(far: ConnectEngine) -> None:
    session = far.session()
    assert check_query(session, "SELECT count(*) FROM exchanges WHERE api_key = 0", TABLES) == {"exchanges"}
    for query, words in (("SELECT reflect('a', 'b')", "`reflect`"), ("SELEC 1", "wrong SQL")):
        with pytest.raises(ValueError, match=words):
            check_query(session, query, TABLES)


@pytest.mark.thorough
def test_a_filter_that_needs_names(
    far: ConnectEngine, engine: Engine, splits_of: SplitsOf, whole: Whole
) -> None:
    topic = next(filter(None, whole(SMALL)["partitions"]["topic"].to_pylist()))
    treatment = TableOptions(Filter(topics=(topic,)))
    assert treatment.filter.needs_names
    splits = splits_of(SMALL, split_bytes=SMALL.stat().st_size // 3)
    work = AnalysisWork(splits, partitions=5, treatment=treatment)
    there, here = (
        jobs.merge_figures(jobs.figures(spark, work)) for spark in (far.context(), engine.context())
    )
    assert there.counts == here.counts
    facts = CaptureFacts()
    assert build_report(there.partial, facts) == build_report(here.partial, facts)


def test_executors_survey(far: ConnectEngine, tmp_path: Path) -> None:
    files = open_inputs([str(SMALL)], str(tmp_path)).files
    range_bytes = SMALL.stat().st_size // 4
    found = index_captures(
        files, 40_000, range_bytes=range_bytes, run=partial(jobs.scan_ranges, far.context())
    )
    assert found == index_captures(files, 40_000, range_bytes=range_bytes)


@pytest.mark.thorough
def test_the_first_interrupt_reports_what_was_read(server: ConnectServer) -> None:
    arguments = ["analyze", REPORTED, "--full", "--remote", server.master, "--split-bytes", "20000"]
    code, output, errors = interrupted(*arguments)
    assert code == 130, errors
    assert b"interrupted: what came until now is reported" in errors
    told = re.search(rb"interrupted: only ([\d.]+) KiB of ([\d.]+) [KM]iB were read", errors)
    assert told, errors
    assert told[0] in output
    assert b"Traceback" not in errors


def test_without_a_way_to_the_server_nothing_ends_early(tmp_path: Path) -> None:
    with ConnectEngine.start(SparkSettings("sc://nowhere.invalid:15002")) as engine:
        assert engine.reading_stop(tmp_path) is None


def test_nobody_there_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "REACHED_SECONDS", 0.2)
    for url, words in (
        ("sc://127.0.0.1:9/;token=secret", "no Spark Connect server answers at sc://127.0.0.1:9$"),
        ("sc://127.0.0.1:moon", "is not the address of a Spark Connect server"),
    ):
        with ConnectEngine.start(SparkSettings(url)) as engine, pytest.raises(ConnectError, match=words):
            engine.context()


def test_an_old_server_is_one_sentence(server: ConnectServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "OLDEST", (99, 0))
    with (
        ConnectEngine.start(SparkSettings(server.master)) as engine,
        pytest.raises(ConnectError, match=r"runs Spark 4\..*: 99\.0 or newer is needed"),
    ):
        engine.context()


def test_missing_packages_are_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "pandas.py").write_text("raise ImportError\n")
    path = f"{tmp_path}:{SOURCES}"
    done = kdissect("analyze", "--quiet", SMALL, SPARK_REMOTE="sc://127.0.0.1:9", PYTHONPATH=path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "kdissect: Spark Connect needs packages that are not installed: pip install 'kdissect[connect]'\n"
    )
