"""Part files become one file: one header, all rows, in the order of the names."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from kdissect.spark.joined_parts import join_parts


@pytest.mark.parametrize(
    ("format", "parts", "expected"),
    [
        ("csv", ["a,b\n1,2\n", "a,b\n", 'a,b\n3,"x\ny"\n'], 'a,b\n1,2\n3,"x\ny"\n'),
        ("jsonl", ['{"a":1}\n', "", '{"a":2}\n'], '{"a":1}\n{"a":2}\n'),
    ],
)
def test_text(format: str, parts: list[str], expected: str, tmp_path: Path) -> None:
    for number, text in enumerate(parts):
        (tmp_path / f"part-{number:05d}").write_text(text)
    join_parts(tmp_path, tmp_path / "all", format)
    assert (tmp_path / "all").read_text() == expected


def test_parquet(tmp_path: Path) -> None:
    for number in range(3):
        parquet.write_table(pa.table({"a": [number, number + 10]}), tmp_path / f"part-{number:05d}.parquet")
    join_parts(tmp_path, tmp_path / "all.parquet", "parquet")
    assert parquet.read_table(tmp_path / "all.parquet")["a"].to_pylist() == [0, 10, 1, 11, 2, 12]
