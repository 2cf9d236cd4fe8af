"""Batches as bytes, and their order after a shuffle."""

import random
from pathlib import Path

import pyarrow as pa
import pytest

from kdissect.capture.segment_index import PIECES
from kdissect.spark.arrow_ipc import MANY_PIECES, from_blob, ordered_by_split, pieces_blob, to_blob
from kdissect.spark.file_parts import parts_in

ROWS = pa.schema([PIECES.field("bucket"), PIECES.field("split")])


def batch(number: int, split: int | None = None) -> pa.RecordBatch:
    """Return the first columns of pieces of a split."""
    ordinal = number if split is None else split
    return pa.record_batch({"bucket": [number] * 100, "split": [ordinal] * 100}, schema=ROWS)


@pytest.mark.parametrize("compression", [None, "lz4"])
def test_a_batch_comes_back(compression: str | None) -> None:
    assert from_blob(to_blob(batch(7), compression)) == [batch(7)]


def test_many_pieces_are_compressed_and_few_are_not() -> None:
    few, many = (pa.record_batch({"split": [1] * count}) for count in (MANY_PIECES - 1, MANY_PIECES))
    assert pieces_blob(few) == to_blob(few)
    assert len(pieces_blob(many)) < len(pieces_blob(few)) / 3
    assert from_blob(pieces_blob(many)) == [many]


@pytest.mark.parametrize("held_bytes", [1, 1 << 20])
def test_blobs_come_in_order_of_splits_from_memory_and_from_disk(held_bytes: int) -> None:
    """They say of which split they are, which nobody may have known before."""
    blobs = [(number, to_blob(batch(number, 0))) for number in range(50)]
    random.Random(3).shuffle(blobs)
    assert list(ordered_by_split(blobs, held_bytes)) == [batch(number) for number in range(50)]


def test_blobs_in_files_come_in_order_with_others(tmp_path: Path) -> None:
    path = tmp_path / "parts"
    with parts_in(path) as writer:
        blobs = [(number, to_blob(batch(number))) for number in range(20)]
        random.Random(4).shuffle(blobs)
        mixed = [(number, writer.put(blob) if number % 3 else blob) for number, blob in blobs]
        assert list(ordered_by_split(mixed, 1)) == [batch(number) for number in range(20)]


def test_temporary_files_lie_where_spark_wants_them(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"/does/not/exist,{tmp_path}")
    seen: list[object] = []

    def spooled(**options: object) -> object:
        seen.append(options["dir"])
        raise InterruptedError

    monkeypatch.setattr("tempfile.SpooledTemporaryFile", spooled)
    with pytest.raises(InterruptedError):
        list(ordered_by_split([]))
    assert seen == [str(tmp_path)]
