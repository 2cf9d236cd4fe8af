"""A watch whose captures, tables and checkpoint are in an object store gives the same rows."""

import json
import random
from pathlib import Path

import pytest

from kdissect.capture.storage_folder import open_folder
from kdissect.cli.main import main
from kdissect.cli.watch_places import opened_store
from kdissect.spark.session import Engine
from kdissect.spark.watch.watch_settings import WatchSettings
from kdissect.spark.watch.watched_directory import WatchedDirectory
from tests.helpers.command_here import kdissect_here
from tests.helpers.rings import CAPTURES, assert_same, download, ring_files, tables_at_once, tables_of_watch
from tests.helpers.watching import KILLS, SEED, kill_at_work, start_watch, watch_until_idle

FILES = 4
"""Files for each run, in batches of two."""


@pytest.mark.thorough
@pytest.mark.timeout(900)
def test_a_watch_of_an_object_store_that_is_killed_goes_on(
    s3: str, engine: Engine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chance = random.Random(SEED)
    waiting = list(enumerate(ring_files(CAPTURES / "old-broker.pcap", FILES * (KILLS + 1))))
    ring, out = (f"s3://captures/{tmp_path.name}/{folder}{s3}" for folder in ("ring", "out"))

    def add(count: int) -> None:
        for number, data in waiting[:count]:
            open_folder(ring).write(f"ring-{number:05}.pcap", data)
        del waiting[:count]

    for _ in range(KILLS):
        add(FILES)
        kill_at_work(start_watch(ring, out, "--max-files", "2"), chance)
    add(len(waiting))
    reports = watch_until_idle(engine, ring, out, tmp_path / "work", most_files=2)
    assert reports[-1].figures.open == 0
    local = download(out, tmp_path / "out")
    assert_same(tables_of_watch(local), tables_at_once(ring))
    assert not list(local.glob("_pending*"))
    settings = WatchSettings(WatchedDirectory(ring))
    with opened_store(None, out, settings.source, settings.about(), tmp_path / "again") as store:
        assert store.last.finished
    texts = []
    for place in (out, str(local)):
        assert main(["report", place, "--last", "1h", "--format", "json"]) == 0
        texts.append(capsys.readouterr().out)
    far, near = map(json.loads, texts)
    assert far == near


@pytest.mark.slow
@pytest.mark.parametrize("place", ["none://a/b", "s3://no-such-bucket-for-a-watch/ring"])
def test_a_place_that_cannot_be_listed_is_one_sentence(s3: str, place: str) -> None:
    done = kdissect_here("watch", place + s3.replace("&allow_bucket_creation=true", ""))
    assert done.returncode == 2
    assert done.stderr.startswith(f"kdissect: cannot list {place}")
    assert done.stderr.count("\n") == 1
