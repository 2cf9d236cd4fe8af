"""Nothing is loaded from a cache into which another user could have written."""

import os
import pwd
import stat
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from kdissect import cache_directory
from kdissect.cache_directory import (
    UnusableCacheError,
    cache_home,
    check_private,
    mark_used,
    remove_old,
)
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


def test_a_user_without_a_home_has_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 2**31 - 7)  # nobody in /etc/passwd
    monkeypatch.setattr(Path, "mkdir", lambda *_, **__: None)
    assert not cache_home().exists()


def test_one_that_others_could_read_is_closed(home: Path) -> None:
    (home / "kdissect").mkdir(parents=True, mode=0o755)
    cache_home()
    assert stat.S_IMODE((home / "kdissect").stat().st_mode) == 0o700


def test_one_that_others_can_write_to_is_refused(home: Path) -> None:
    cache_home().chmod(0o777)
    with pytest.raises(UnusableCacheError, match="other users may write to the cache"):
        cache_home()


def test_a_directory_on_the_way_that_others_can_write_to_is_refused(home: Path) -> None:
    cache_home()
    home.chmod(0o777)
    with pytest.raises(UnusableCacheError, match="may replace what is in"):
        cache_home()
    home.chmod(0o1777)  # as /tmp: nobody renames what belongs to others
    cache_home()


def test_a_group_of_others_is_not_trusted(home: Path) -> None:
    cache_home()
    if os.geteuid() != 0:
        pytest.skip("only root gives a directory to a foreign group")
    os.chown(home, 0, OTHER)
    home.chmod(0o775)
    with pytest.raises(UnusableCacheError):
        cache_home()


def test_a_directory_of_the_user_s_choice_keeps_its_mode(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    check_private(tmp_path)  # as for NUMBA_CACHE_DIR
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755


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
        with pytest.raises(UnusableCacheError, match="belongs to user"):
            check_private(shared / "cache" / "kdissect")


READ_AS_OTHER = """
import os, sys
from pathlib import Path
from kdissect.cache_directory import UnusableCacheError, check_private
os.setuid(int(sys.argv[1]))
try:
    check_private(Path(sys.argv[2]))
except UnusableCacheError as error:
    print(error)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
@pytest.mark.parametrize("closed", ["cache", "cache/kdissect"])
def test_a_cache_that_only_root_may_read_is_refused_with_advice(closed: str) -> None:
    with directory_for_all() as shared:
        cache = shared / "cache" / "kdissect"
        cache.mkdir(parents=True)
        (shared / closed).chmod(0o700)
        command = [sys.executable, "-P", "-c", READ_AS_OTHER, str(OTHER), str(cache)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stdout == f"this user may not read the cache {cache}: {cache_directory.ADVICE}\n"


def test_old_files_and_folders_are_removed_and_missing_ones_passed_over(tmp_path: Path) -> None:
    old, young, folder = tmp_path / "old", tmp_path / "young", tmp_path / "folder"
    old.touch()
    young.touch()
    (folder / "inside").mkdir(parents=True)
    for path in (old, folder):
        os.utime(path, (0, 0))
    remove_old([tmp_path / "missing", old, young, folder])
    assert list(tmp_path.iterdir()) == [young]


def test_a_relative_place_is_ignored(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "cache")
    monkeypatch.setenv("HOME", str(home))
    assert cache_home() == home / ".cache" / "kdissect"


@pytest.mark.parametrize("aim", ["{}/open/second", "open/second"])
def test_each_link_of_a_chain_lies_on_the_way(aim: str, home: Path) -> None:
    (home / "open").mkdir(parents=True)
    (home / "safe").mkdir()
    (home / "open" / "second").symlink_to("../safe")
    (home / "first").symlink_to(aim.format(home))
    check_private(home / "first" / "kdissect")
    (home / "open").chmod(0o777)
    with pytest.raises(UnusableCacheError, match=f"may replace what is in {home}/open"):
        check_private(home / "first" / "kdissect")


def test_links_in_a_circle_end(home: Path) -> None:
    home.mkdir(parents=True)
    (home / "loop").symlink_to("loop")
    check_private(home / "loop" / "kdissect")


def test_a_group_that_is_the_first_of_another_user_is_not_private(monkeypatch: pytest.MonkeyPatch) -> None:
    me = pwd.getpwuid(os.geteuid())
    group = SimpleNamespace(gr_name=me.pw_name, gr_mem=[])
    monkeypatch.setattr("grp.getgrgid", lambda _: group)
    other = SimpleNamespace(pw_name="somebody", pw_gid=4711)
    for users, is_private in (([me], True), ([me, other], False)):
        monkeypatch.setattr("pwd.getpwall", lambda users=users: users)
        assert cache_directory._is_private_group(4711) is is_private


def test_what_is_used_is_not_old(tmp_path: Path) -> None:
    used, unused = tmp_path / "used", tmp_path / "unused"
    for folder in (used, unused):
        folder.mkdir()
        os.utime(folder, (0, 0))
    mark_used(used)
    remove_old([used, unused])
    assert [path.name for path in tmp_path.iterdir()] == ["used"]
