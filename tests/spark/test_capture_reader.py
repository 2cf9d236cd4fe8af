"""The reader of a table, without the Spark that plans and runs it."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from kdissect.spark.capture_reader import MOST_PARTITIONS, CaptureReader
from kdissect.tables.schemas import TABLES
from tests.spark.conftest import CAPTURES, Tables, in_order

SMALL = CAPTURES / "cluster-life.pcapng"
COMPRESSED = CAPTURES / "incidents" / "broker-frozen-1.pcapng.zst"


@pytest.mark.parametrize("table", ["exchanges", "partitions"])
def test_parts_have_the_rows_of_the_table(whole: Callable[[Path], Tables], table: str) -> None:
    reader = CaptureReader(table, str(SMALL), ())
    parts = reader.partitions()
    assert 1 <= len(parts) <= MOST_PARTITIONS
    batches = [batch.cast(TABLES[table]) for part in parts for batch in reader.read(part)]
    assert in_order(pa.Table.from_batches(batches)).equals(in_order(whole(SMALL)[table]))


def test_a_compressed_capture_is_refused() -> None:
    with pytest.raises(ValueError, match=r"is compressed: unpack it"):
        CaptureReader("exchanges", str(COMPRESSED), ()).partitions()
