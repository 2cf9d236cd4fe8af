"""The captures of a batch: where compressed ones lie, how long, and what is passed over."""

import gzip
from contextlib import ExitStack
from pathlib import Path

import pytest

from kdissect.capture.formats.file_types import InputError
from kdissect.spark.watch.batch_captures import batch_captures
from kdissect.spark.watch.file_journal import TakenFile
from tests.helpers.rings import CAPTURES

PLAIN = CAPTURES / "old-broker.pcap"


def taken(path: Path, start: int = 0) -> TakenFile:
    return TakenFile(0, str(path), path.stat().st_size, 0, "", 0, start)


def test_compressed_captures_stay_until_the_batch_ends(tmp_path: Path) -> None:
    packed, other, spool = tmp_path / "a.pcap.gz", tmp_path / "notes.txt", tmp_path / "spool"
    packed.write_bytes(gzip.compress(PLAIN.read_bytes()))
    other.write_text("not a capture")
    spool.mkdir()
    with ExitStack() as unpacked:
        files = [taken(PLAIN, 24), taken(packed), taken(other)]
        found = batch_captures(files, str.upper, str(spool), is_shared=True, unpacked=unpacked)
        plain, there = found.captures
        assert (plain.file.path, plain.start, plain.stop) == (str(PLAIN), 24, PLAIN.stat().st_size)
        assert (plain.file.name, there.file.name) == (str(PLAIN).upper(), str(packed).upper())
        assert there.stop is None
        assert Path(there.file.path).read_bytes() == PLAIN.read_bytes()
        assert spool in Path(there.file.path).parents
        assert found.files == files[:2]
        assert found.notices == [f"skipped {other} is not a packet capture (pcap or pcapng)"]
    assert not list(spool.iterdir())


def test_tasks_of_a_cluster_need_a_place_that_they_share(tmp_path: Path) -> None:
    packed = tmp_path / "a.pcap.gz"
    packed.write_bytes(gzip.compress(PLAIN.read_bytes()))
    with ExitStack() as unpacked, pytest.raises(InputError, match="a cluster cannot read compressed"):
        batch_captures([taken(packed)], str, str(tmp_path), is_shared=False, unpacked=unpacked)
    with ExitStack() as unpacked, pytest.raises(InputError, match="missing"):
        batch_captures([taken(packed)], str, str(tmp_path / "missing"), is_shared=True, unpacked=unpacked)
    assert [path.name for path in tmp_path.iterdir()] == ["a.pcap.gz"]
