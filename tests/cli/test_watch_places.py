"""Places of a watch: directories of this machine, file:// and other URIs, and where the checkpoint lies."""

from pathlib import Path

import pytest

from kdissect.cli.arguments import parse
from kdissect.cli.watch_places import absolute, check_cluster_captures, opened_store, watched_directory
from kdissect.errors import UsageError
from kdissect.spark.watch.table_places import FarTables, NearTables
from kdissect.spark.watch.watched_directory import WatchedDirectory


def test_directories_may_be_uris(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert watched_directory(f"file://{tmp_path}").directory == str(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert absolute("out") == absolute(f"file://{tmp_path}/out") == f"{tmp_path}/out"
    assert absolute("s3://bucket/out") == "s3://bucket/out"


@pytest.mark.parametrize("words", [["-"], ["--interface", "lo"]])
def test_packets_of_this_machine_are_not_for_a_cluster(words: list[str]) -> None:
    with pytest.raises(UsageError, match="--interface and - keep their packets on this machine"):
        check_cluster_captures(parse(["watch", *words]))
    for place in ([], ["--out", "here"], ["--out", "s3://bucket/out"]):
        check_cluster_captures(parse(["watch", "s3://bucket/ring", *place]))


def test_a_place_that_is_not_there_is_one_sentence(tmp_path: Path, s3: str) -> None:
    with pytest.raises(UsageError, match="is not a directory: watch follows directories of captures"):
        watched_directory(str(tmp_path / "missing"))
    for place in ("none://a/b", f"s3://no-such-bucket{s3.replace('&allow_bucket_creation=true', '')}"):
        with pytest.raises(UsageError, match=f"^cannot list {place[:12]}") as raised:
            watched_directory(place)
        assert "\n" not in str(raised.value)
    assert watched_directory(f"s3://captures/empty{s3}").directory.startswith("s3://captures/empty")


def test_the_checkpoint_lies_in_the_tables_unless_said(tmp_path: Path, s3: str) -> None:
    source, work, near = WatchedDirectory(str(tmp_path)), tmp_path / "work", str(tmp_path / "out")
    far = f"s3://captures/{tmp_path.name}/out{s3}"
    cases = [
        (None, None, work),
        (None, near, tmp_path / "out" / "_checkpoint"),
        (str(tmp_path / "other"), near, tmp_path / "other"),
        (str(tmp_path / "other"), far, tmp_path / "other"),
        (None, far, work),
    ]
    for checkpoint, out, expected in cases:
        with opened_store(checkpoint, out, source, {}, work) as store:
            assert store.checkpoint == expected
            kind = {None: type(None), near: NearTables, far: FarTables}[out]
            assert isinstance(store.tables, kind)
