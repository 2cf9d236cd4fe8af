"""Rows in lists: scanned, passed through steps, and chosen by key."""

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pytest

from kdissect.spark.backend import Row
from kdissect.spark.backend_choice import backend_of
from kdissect.spark.in_process_backend import InProcessBackend


def scan(ordinals: Iterable[int]) -> Iterator[tuple[int, Row]]:
    for ordinal in ordinals:
        yield ordinal % 2, (ordinal, b"%d" % ordinal)


def name_parity(rows: Iterable[Row]) -> Iterator[tuple[str, bytes]]:
    for ordinal, blob in rows:
        yield ("odd" if ordinal % 2 else "even"), blob


def test_rows_go_through_steps_and_are_chosen_by_key() -> None:
    backend = InProcessBackend()
    rows = backend.scan_and_shuffle(scan, range(5), 3, 2, None).through(name_parity).kept()
    assert sorted(key for key, _ in rows.collected()) == ["even"] * 3 + ["odd"] * 2
    assert rows.only("odd").collected() == [("odd", b"1"), ("odd", b"3")]


def test_it_is_its_own_backend_and_makes_no_dataframes() -> None:
    backend = InProcessBackend()
    assert backend_of(backend) is backend
    assert backend.each(str.upper, ["a", "b"]) == ["A", "B"]
    rows = backend.scan_and_shuffle(scan, range(1), 1, 1, None)
    with pytest.raises(TypeError, match="without Spark"):
        rows.frame(None, iter, pa.schema([("rows", pa.binary())]))  # type: ignore[arg-type]
