"""Another user of the same directories redirects neither what a run writes nor what it removes."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from kdissect.files import LOCK, ScratchDirectory, UnfinishedOutput, recover_replaced, write_atomically
from tests.helpers.command import environment
from tests.helpers.other_user import as_other, directory_for_all, needs_other_user

PLANT = """
import os, sys
kind, path, aim = sys.argv[1:]
{
    "link": lambda: os.symlink(aim, path),
    "pipe": lambda: os.mkfifo(path),
    "directory with a linked lock": lambda: (os.mkdir(path), os.symlink(aim, path + "/lock")),
    "directory with a pipe for a lock": lambda: (os.mkdir(path), os.mkfifo(path + "/lock")),
}[kind]()
"""

GUESS = """
import os, sys
folder, aim, pid = sys.argv[1:]
for name in ("report.html",):
    os.symlink(aim, os.path.join(folder, f".{name}.{pid}.part"))
"""

WRITER = """
import os, sys
from pathlib import Path
from kdissect.files import write_atomically
print(os.getpid(), flush=True)
sys.stdin.readline()
write_atomically(Path(sys.argv[1]) / "report.html", "report")
"""


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    folder = tmp_path / "victim"
    folder.mkdir()
    (folder / LOCK).touch()
    (folder / "letters").write_text("dear")
    return folder


def test_a_link_in_the_place_of_a_stray_is_not_followed(
    victim: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "kdissect-x").symlink_to(victim)
    (tmp_path / "kdissect-y").mkdir()
    (tmp_path / "kdissect-y" / LOCK).touch()
    (tmp_path / "kdissect-y" / "inside").symlink_to(victim)
    ScratchDirectory().end()
    assert (victim / "letters").read_text() == "dear"
    assert (tmp_path / "kdissect-x").is_symlink()
    assert not (tmp_path / "kdissect-y").exists()


@needs_other_user
@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "kind", ["link", "pipe", "directory with a linked lock", "directory with a pipe for a lock"]
)
def test_strays_of_another_user_are_left_alone(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with directory_for_all() as shared:
        victim = shared / "victim"
        victim.mkdir()
        (victim / LOCK).touch()
        (victim / "letters").write_text("dear")
        planted = shared / "kdissect-x"
        as_other(PLANT, kind, planted, victim / LOCK if "lock" in kind else victim)
        monkeypatch.setattr("tempfile.tempdir", str(shared))
        with ScratchDirectory() as scratch:
            assert stat.S_IMODE(scratch.stat().st_mode) == 0o700
        assert (victim / "letters").read_text() == "dear"
        assert (victim / LOCK).exists()
        assert os.path.lexists(planted)


@needs_other_user
def test_a_planted_part_is_not_written_through() -> None:
    """The attacker knows the process that will write, and where."""
    with directory_for_all() as shared:
        precious = shared / "precious"
        precious.write_text("mine")
        precious.chmod(0o600)
        run = subprocess.Popen(
            [sys.executable, "-P", "-c", WRITER, str(shared)],
            env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert run.stdin is not None
        assert run.stdout is not None
        as_other(GUESS, shared, precious, run.stdout.readline().strip())
        run.communicate("go\n")
        assert run.returncode == 0
        assert precious.read_text() == "mine"
        report = shared / "report.html"
        assert not report.is_symlink()
        assert (report.read_text(), report.stat().st_uid) == ("report", os.geteuid())


@needs_other_user
@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_parts_of_another_user_are_left_alone(kind: str) -> None:
    with directory_for_all() as shared:
        precious = shared / "precious"
        precious.write_text("mine")
        as_other(PLANT, kind, shared / ".report.txt.1.part", precious)
        write_atomically(shared / "report.txt", "report")
        assert precious.read_text() == "mine"
        assert (shared / "report.txt").read_text() == "report"


@needs_other_user
def test_a_directory_of_another_user_is_not_recovered_as_an_old_result() -> None:
    with directory_for_all() as shared:
        as_other("import os, sys; os.mkdir(sys.argv[1])", shared / ".tables.1.old")
        recover_replaced(shared / "tables")
        assert not (shared / "tables").exists()


@needs_other_user
def test_a_part_that_another_user_replaced_is_not_moved() -> None:
    """In a directory without the sticky bit others may rename what is not theirs."""
    swap = "import os, sys; os.rename(sys.argv[1], sys.argv[1] + '.away'); os.mkdir(sys.argv[1])"
    with directory_for_all(sticky=False) as shared, UnfinishedOutput(shared / "tables") as part:
        as_other(swap, part.directory())
        with pytest.raises(OSError, match="replaced by another process"):
            part.move()
        assert not (shared / "tables").exists()


def test_names_of_parts_cannot_be_guessed(tmp_path: Path) -> None:
    names = {UnfinishedOutput(tmp_path / "out").path.name for _ in range(20)}
    assert len(names) == 20
    assert not any(str(os.getpid()) == name.split(".")[2] for name in names)
