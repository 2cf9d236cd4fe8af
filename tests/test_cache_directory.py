"""Nothing is loaded from a cache into which another user could have written."""

import os
import stat
from pathlib import Path

import pytest

from kdissect.cache_directory import UntrustedCacheError, cache_home, check_private, remove_old
from tests.helpers.command import assert_one_sentence, kdissect
from tests.helpers.other_user import OTHER, as_other, directory_for_all, needs_other_user

CAPTURE = Path(__file__).parents[1] / "captures" / "pause.pcapng"

PLANT = """
import os, sys
os.umask(0)
os.makedirs(sys.argv[1])
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "new" / "cache"))
    return tmp_path / "new" / "cache"


def test_it_is_made_for_its_owner_alone(home: Path) -> None:
    assert cache_home() == home / "kdissect"
    assert stat.S_IMODE((home / "kdissect").stat().st_mode) == 0o700


def test_one_that_others_could_read_is_closed(home: Path) -> None:
    (home / "kdissect").mkdir(parents=True, mode=0o755)
    cache_home()
    assert stat.S_IMODE((home / "kdissect").stat().st_mode) == 0o700


def test_one_that_others_can_write_to_is_refused(home: Path) -> None:
    cache_home().chmod(0o777)
    with pytest.raises(UntrustedCacheError, match="other users may write to the cache"):
        cache_home()


def test_a_directory_on_the_way_that_others_can_write_to_is_refused(home: Path) -> None:
    cache_home()
    home.chmod(0o777)
    with pytest.raises(UntrustedCacheError, match="may replace what is in"):
        cache_home()
    home.chmod(0o1777)  # as /tmp: nobody renames what belongs to others
    cache_home()


def test_a_group_of_others_is_not_trusted(home: Path) -> None:
    cache_home()
    if os.geteuid() != 0:
        pytest.skip("only root gives a directory to a foreign group")
    os.chown(home, 0, OTHER)
    home.chmod(0o775)
    with pytest.raises(UntrustedCacheError):
        cache_home()


def test_what_does_not_exist_is_no_danger(tmp_path: Path) -> None:
    check_private(tmp_path / "absent" / "cache")


@needs_other_user
def test_the_cache_of_another_user_is_refused() -> None:
    with directory_for_all() as shared:
        as_other(PLANT, shared / "cache" / "kdissect")
        done = kdissect("analyze", CAPTURE, XDG_CACHE_HOME=str(shared / "cache"))
        assert done.returncode == 2
        assert_one_sentence(done.stderr)
        assert "belongs to user 54321, who could put code there" in done.stderr
        assert list((shared / "cache" / "kdissect").iterdir()) == []


@needs_other_user
def test_a_link_of_another_user_to_a_cache_is_refused(tmp_path: Path) -> None:
    with directory_for_all() as shared:
        (tmp_path / "kdissect").mkdir(mode=0o700)
        as_other("import os, sys; os.symlink(*sys.argv[1:])", tmp_path, shared / "cache")
        with pytest.raises(UntrustedCacheError, match="belongs to user"):
            check_private(shared / "cache" / "kdissect")


def test_old_files_and_folders_are_removed_and_missing_ones_passed_over(tmp_path: Path) -> None:
    old, young, folder = tmp_path / "old", tmp_path / "young", tmp_path / "folder"
    old.touch()
    young.touch()
    (folder / "inside").mkdir(parents=True)
    for path in (old, folder):
        os.utime(path, (0, 0))
    remove_old([tmp_path / "missing", old, young, folder])
    assert list(tmp_path.iterdir()) == [young]
