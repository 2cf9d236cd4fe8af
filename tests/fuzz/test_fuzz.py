"""Defects that fuzzing found stay mended, and a little of it is done every time: the same cases each time."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest

from tests.fuzz import rounds, seeds
from tests.fuzz.__main__ import jobs_of
from tests.fuzz.case import Case, from_bytes, to_bytes
from tests.fuzz.corpus import KEPT, SEEDS
from tests.fuzz.damage import damaged
from tests.fuzz.progress import Done, Progress, read_progress
from tests.fuzz.rounds import Job, Length, Setup, Turn, next_job, play_rounds
from tests.fuzz.subjects import SUBJECTS, WHAT_IT_READS
from tests.fuzz.targets import STARTS_PROGRAMS, TARGETS
from tests.fuzz.totals import add_turn, spent_by_job
from tests.fuzz.worker import fuzz

ROOT = Path(__file__).parents[2]
CASES = sorted(Path(__file__).with_name("cases").glob("*.bin"))
SMALL = 64 << 10  # bytes of the corpus of a target


@pytest.mark.parametrize("path", CASES, ids=[path.stem for path in CASES])
def test_what_was_found(path: Path) -> None:
    TARGETS[path.name.partition("-")[0]](from_bytes(path.read_bytes()))


SLOW = {"capture", "reader", "tcp"}  # targets that dissect captures or whole streams


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else [])
        for name in sorted(TARGETS.keys() - STARTS_PROGRAMS)
    ],
)
@pytest.mark.slow
def test_a_little(name: str) -> None:
    rng = Random(name)
    cases = SEEDS[name]() if name in SEEDS else list(seeds.invented(rng))
    for _ in range(50 if name in SLOW else 150):
        case, other = rng.choice(cases), rng.choice(cases)
        TARGETS[name](case._replace(data=damaged(rng, case.data, other.data)))


@pytest.mark.spark
def test_a_few_whole_commands(tmp_path: Path) -> None:
    """In a process of its own, which has a Spark of its own."""
    turns = list(play_rounds(jobs_of(["command"], "mutator", "off"), Length(1, 2, 1), Setup(tmp_path), 5))
    assert [turn.failures for turn in turns] == [0]
    assert turns[0].done.executions > 0  # a turn of a second, on a machine that may be busy


def test_cases_survive_their_files() -> None:
    case = Case(-1, 32767, True, b"bytes")
    assert from_bytes(to_bytes(case)) == case


def test_corpora_are_small_and_read() -> None:
    assert {path.name for path in KEPT.glob("*")} <= TARGETS.keys()
    for folder in KEPT.glob("*"):
        paths = list(folder.glob("*.bin"))
        assert 0 < sum(path.stat().st_size for path in paths) < SMALL
        if folder.name not in STARTS_PROGRAMS:
            for path in paths:
                TARGETS[folder.name](from_bytes(path.read_bytes()))


def test_progress_tells_the_case_in_which_a_process_died(tmp_path: Path) -> None:
    with Progress(tmp_path / "progress") as progress:
        for raw in (b"one", b"another one"):
            progress.begin(raw)
            progress.end(1.5)
        assert read_progress(tmp_path / "progress") == Done(2, 1.5, 0, b"")
        progress.begin(b"the last")
    assert read_progress(tmp_path / "progress") == Done(2, 1.5, 0, b"the last")
    assert read_progress(tmp_path / "none").executions == 0


@pytest.mark.slow
def test_a_process_that_dies_leaves_its_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The module `dies` stands for a harness that a compiled kernel has ended."""
    (tmp_path / "dies.py").write_text(
        "import os, pathlib, sys\n"
        "from tests.fuzz.progress import Progress\n"
        "Progress(pathlib.Path(sys.argv[5])).begin(b'what it read')\n"
        "os.kill(os.getpid(), 11)\n"
    )
    monkeypatch.setitem(rounds.MODULES, "mutator", "dies")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{ROOT}")
    turns = play_rounds([Job("tcp", "mutator", True)], Length(0.5, 1, 1), Setup(tmp_path / "out"), 1)
    assert {turn.failures for turn in turns} == {1}
    assert [path.read_bytes() for path in (tmp_path / "out").iterdir()] == [b"what it read"]


def test_turns_add_up_to_a_page(tmp_path: Path) -> None:
    for _ in range(2):
        add_turn(Turn(Job("tcp", "mutator", True), Done(1000, 900.0, 0, b""), 1), tmp_path)
        add_turn(Turn(Job("tcp", "atheris", False), Done(10, 1.0, 7, b""), 0), tmp_path)
    text = (tmp_path / "fuzz.md").read_text()
    assert "| TCP | 2,020 | 1,800 s | 2 s | 1,802 s | 50% |" in text
    assert f"| tcp | {WHAT_IT_READS['tcp']} | mutator | on | 2,000 | 1,800 s |  | 2 |" in text
    assert f"| tcp | {WHAT_IT_READS['tcp']} | atheris | off | 20 | 2 s | 7 | 0 |" in text
    assert json.loads((tmp_path / "fuzz.json").read_text())["rows"]["tcp mutator on"]["turns"] == 2
    assert spent_by_job(tmp_path) == {Job("tcp", "mutator", True): 1800.0, Job("tcp", "atheris", False): 2.0}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fuzz.json", "fuzz.md"]


def test_the_subject_with_the_least_time_is_next() -> None:
    jobs = jobs_of(["tcp", "codec", "columns", "records"], "mutator", "both")
    spent = dict.fromkeys(jobs, 100.0)  # 200 s of TCP and of records, 400 s of schema programs
    spent[Job("records", "mutator", False)] = 99.0
    assert next_job(jobs, spent) == Job("records", "mutator", False)
    assert next_job(jobs[:-2], spent).target == "tcp"
    assert next_job(jobs, {}) == jobs[0]


@pytest.mark.slow
def test_an_interrupted_run_counts_what_it_did(tmp_path: Path) -> None:
    """The turn of an hour ends at once, and its executions are in the figures."""
    arguments = ["--seconds", "3600", "--turn", "3600", "--target", "records", "--compiler", "off"]
    folders = ["--report", str(tmp_path), "--out", str(tmp_path / "out")]
    command = [sys.executable, "-m", "tests.fuzz", *arguments, *folders]
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, env=environment, cwd=ROOT) as process:
        try:
            while executions_in(tmp_path) < 100 and process.poll() is None:
                time.sleep(0.05)
            process.terminate()
            assert process.wait(20) == 128 + signal.SIGTERM
        finally:
            process.kill()
    row = json.loads((tmp_path / "fuzz.json").read_text())["rows"]["records mutator off"]
    assert row["turns"] == 1
    assert row["executions"] >= 100
    assert row["failures"] == 0
    assert "| records |" in (tmp_path / "fuzz.md").read_text()
    assert not (tmp_path / "out").exists()  # the case that was interrupted is no failure


def executions_in(folder: Path) -> int:
    """Return the executions of the process whose progress is below a folder."""
    return max((read_progress(path).executions for path in folder.glob("*/progress")), default=0)


def test_progress_that_has_no_figures_yet_is_nothing(tmp_path: Path) -> None:
    (tmp_path / "made").touch()
    assert read_progress(tmp_path / "made") == read_progress(tmp_path / "missing") == Done(0, 0.0, 0, b"")


def test_a_worker_ends_with_the_process_that_started_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parents = iter([7, 7, 7, 7, 1])
    monkeypatch.setattr(os, "getppid", lambda: next(parents))
    with Progress(tmp_path / "progress") as progress:
        assert fuzz("records", 3600, 1, tmp_path, progress) == 0
        assert progress.executions == 3


def test_every_target_has_a_subject() -> None:
    assert sorted(name for names in SUBJECTS.values() for name in names) == sorted(TARGETS)
    assert WHAT_IT_READS.keys() == TARGETS.keys()


def test_atheris_gets_no_compiled_kernels_and_no_programs() -> None:
    jobs = jobs_of(["tcp", "command"], "atheris", "both")
    assert jobs == [Job("tcp", "atheris", False)]
    assert len(jobs_of(["tcp", "command"], "mutator", "both")) == 4
