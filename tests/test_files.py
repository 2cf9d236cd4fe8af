"""Killed at any moment, a run leaves its whole result or none, and what else it leaves the next one removes.

KDISSECT_KILLS says how many runs of the command are killed at random moments (1 unless said), besides one
that is writing.
"""

import fcntl
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow.parquet
import pytest

from kdissect.files import ScratchDirectory, UnfinishedOutput, recover_replaced, write_atomically
from kdissect.replay.results.run_files import write_run
from kdissect.spark.session import Engine
from tests.helpers.command import COMMAND, environment
from tests.helpers.command_here import kdissect_here

CAPTURE = Path(__file__).parents[1] / "captures" / "broker-restart.pcapng"
KILLS = int(os.environ.get("KDISSECT_KILLS", "1"))
TEXT = "new\n" * 100_000

OPERATIONS = {
    "open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "fcntl.flock", "os.scandir", "os.listdir"
}  # fmt: skip


def replace_directory(path: Path) -> None:
    recover_replaced(path)
    with UnfinishedOutput(path) as part:
        (part.directory() / "table").write_text(TEXT)
        part.move(replace=True)


def make_run(path: Path) -> None:
    write_run(path, {"whole": True}, (TEXT for _ in range(3)))


WORKS: dict[str, tuple[Callable[[Path], None], Callable[[Path], object], set[object]]] = {
    # what is done to a path that is there; what stands there; what may stand there at any time
    "file": (lambda path: write_atomically(path, TEXT), lambda path: path.read_text(), {"old", TEXT}),
    "directory": (
        replace_directory,
        lambda path: path.exists() and (path / "table").read_text(),
        {"old", TEXT, False},
    ),
    "run": (
        make_run,
        lambda path: path.exists() and json.loads((path / "run.json").read_text())["whole"],
        {False, True},
    ),
}


def killed_at(operation: int, work: Callable[[Path], None], path: Path) -> bool:
    """Do the work in a process of its own that is killed before so many operations on files; say whether it
    came to that."""
    child = os.fork()
    if child == 0:
        left = operation

        def count(event: str, _arguments: object) -> None:
            nonlocal left
            if event in OPERATIONS:
                left -= 1
                if left < 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(count)
        try:
            work(path)
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def kill_at_every_point(name: str, place: Path) -> None:
    work, stands, allowed = WORKS[name]
    for operation in range(200):
        folder = place / str(operation)
        folder.mkdir()
        path = folder / "result[1].x"
        if name == "file":
            path.write_text("old")
        elif name == "directory":
            path.mkdir()
            (path / "table").write_text("old")
        came_to_it = killed_at(operation, work, path)
        assert stands(path) in allowed
        if not stands(path) or name != "run":  # which never replaces another
            work(path)
        assert stands(path) in (TEXT, True)
        UnfinishedOutput(path).end()
        assert [found.name for found in folder.iterdir()] == [path.name]
        if not came_to_it:
            break
    assert 5 < operation < 199


@pytest.mark.slow
@pytest.mark.parametrize("name", WORKS)
def test_killed_between_any_two_operations(name: str, tmp_path: Path) -> None:
    """In a process that has no threads, since it forks."""
    path = os.pathsep.join([environment()["PYTHONPATH"], str(Path(__file__).parents[1])])
    command = [sys.executable, "-P", __file__, name, str(tmp_path)]
    done = subprocess.run(
        command, env=environment(PYTHONPATH=path), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("rename", range(2))
@pytest.mark.parametrize("comes", [replace_directory, recover_replaced])
def test_two_runs_may_replace_one_directory(
    comes: Callable[[Path], None], rename: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, renames, move = tmp_path / "out", [], UnfinishedOutput._rename
    target.mkdir()
    (target / "table").write_text("old")

    def come_between(part: UnfinishedOutput, name: str, other: str) -> None:
        renames.append(name)
        if len(renames) == rename + 1:
            comes(target)
        move(part, name, other)

    with UnfinishedOutput(target) as part:
        (part.directory() / "table").write_text("of the last run")
        monkeypatch.setattr(UnfinishedOutput, "_rename", come_between)
        part.move(replace=True)
    assert (target / "table").read_text() == "of the last run"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_what_another_run_works_on_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held, stray = UnfinishedOutput(tmp_path / "out"), tmp_path / ".out.1.part"
    made = held.directory()
    stray.mkdir()
    UnfinishedOutput(tmp_path / "out").end()
    assert made.exists()
    assert not stray.exists()
    held.end()
    assert not made.exists()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "kdissect-of-somebody").mkdir()
    with ScratchDirectory() as first, ScratchDirectory() as second:
        assert first.exists()
        assert second.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["kdissect-of-somebody"]


def has_come(moment: float) -> bool:
    return time.monotonic() > moment


def kill(arguments: list[str | Path], moment: Callable[[], bool], temporary: Path) -> bool:
    """Start the command, and kill it when the moment has come; False when it was through before."""
    run = subprocess.Popen(
        [*COMMAND, *map(str, arguments)], env=environment(TMPDIR=str(temporary)),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    while run.poll() is None:
        if moment():
            run.kill()
            break
        time.sleep(0.002)
    return run.wait() == -signal.SIGKILL


def whole_or_none(out: Path) -> None:
    if (out / "tables").exists():
        for table in ("connections", "exchanges"):
            assert pyarrow.parquet.read_table(out / "tables" / table).num_rows > 10
    for name in ("report.json", "report.txt", "page.html"):
        if (out / name).exists():
            ends = {"report.json": "}\n", "report.txt": "\n", "page.html": "</html>\n"}
            assert (out / name).read_text().endswith(ends[name])


@pytest.mark.timeout(600)
def test_the_command_killed(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    temporary, out = tmp_path / "temporary", tmp_path / "out"
    temporary.mkdir()
    out.mkdir()
    report = ["analyze", "--quiet", CAPTURE, "--out", out, "--html", out / "page.html"]
    tables = [
        "export",
        "--quiet",
        CAPTURE,
        "--table",
        "connections",
        "--table",
        "exchanges",
        "--out",
        out / "tables",
        "--overwrite",
    ]
    chance = random.Random()
    for number in range(KILLS):
        after = time.monotonic() + chance.uniform(0, 8)
        kill(report if number % 2 else tables, partial(has_come, after), temporary)
        whole_or_none(out)
    assert kill(tables, lambda: any(out.glob(".tables.*.part/connections/**/part-*")), temporary)
    whole_or_none(out)
    assert list(out.glob(".tables.*"))
    for command in (tables, report):
        done = kdissect_here(*command, engine=engine, TMPDIR=str(temporary))
        assert done.returncode == 0, done.stderr
    whole_or_none(out)
    assert sorted(path.name for path in out.iterdir()) == ["page.html", "report.json", "report.txt", "tables"]
    # The Java of a killed run ends when it has noticed that, and keeps the directory until then.
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    deadline = time.monotonic() + 60
    while list(temporary.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.2)
        ScratchDirectory().end()
    assert list(temporary.iterdir()) == []


if __name__ == "__main__":
    kill_at_every_point(sys.argv[1], Path(sys.argv[2]))


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_what_is_no_file_is_not_replaced(kind: str, tmp_path: Path) -> None:
    target = tmp_path / "target"
    if kind == "pipe":
        os.mkfifo(target)
    else:
        target.symlink_to(os.devnull)
    with pytest.raises(OSError, match="a device or a pipe"):
        write_atomically(target, TEXT)
    assert os.path.lexists(target)
    assert not target.is_file()


def test_who_was_not_to_read_the_old_file_is_not_to_read_the_new_one(tmp_path: Path) -> None:
    target = tmp_path / "report"
    target.write_text("old")
    target.chmod(0o600)
    write_atomically(target, TEXT)
    assert target.read_text() == TEXT
    assert target.stat().st_mode & 0o777 == 0o600


def test_a_file_that_is_to_be_private_stays_so(tmp_path: Path) -> None:
    target = tmp_path / "secrets"
    target.write_text("old")
    target.chmod(0o644)
    with UnfinishedOutput(target) as part:
        with part.binary_file(0o600) as file:
            file.write(b"new")
        part.move()
    assert target.stat().st_mode & 0o777 == 0o600


def test_a_name_may_be_as_long_as_names_are(tmp_path: Path) -> None:
    target = tmp_path / ("é" * 127)
    write_atomically(target, TEXT)
    assert target.read_text() == TEXT


def test_a_part_that_another_run_removes_as_a_stray_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another run looks for strays between the making of a part and its lock."""
    target, lock = tmp_path / "report", fcntl.flock
    removed: list[Path] = []

    def lock_late(file: int, how: int) -> None:
        if not removed:
            removed.extend(tmp_path.glob(".report.*.part"))
            removed[0].unlink()
        lock(file, how)

    monkeypatch.setattr(fcntl, "flock", lock_late)
    write_atomically(target, TEXT)
    assert target.read_text() == TEXT
    assert [path.name for path in tmp_path.iterdir()] == ["report"]


def test_a_part_that_another_process_locks_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[int] = []

    def refuse_once(file: int, _how: int) -> None:
        if not refused:
            refused.append(file)
            raise BlockingIOError

    monkeypatch.setattr(fcntl, "flock", refuse_once)
    write_atomically(tmp_path / "report", TEXT)
    assert refused
    assert (tmp_path / "report").read_text() == TEXT


def test_a_directory_with_a_lock_of_its_own_is_no_scratch_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    state = tmp_path / "kdissect-state"
    state.mkdir()
    (state / "lock").touch()
    (state / "watch.json").write_text("{}")
    ScratchDirectory().end()
    assert (state / "watch.json").exists()
