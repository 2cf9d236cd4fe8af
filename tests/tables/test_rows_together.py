"""Messages that ask for very many rows are read part by part, and the rows are the same."""

from pathlib import Path

import pyarrow as pa
import pytest

from kdissect.capture.index.index import index_captures
from kdissect.capture.inputs import open_inputs
from kdissect.capture.scan import scan_split
from kdissect.tables import message_columns
from kdissect.tables.build import dissect_batches

CAPTURE = Path(__file__).parents[2] / "captures" / "transactions.pcapng"
TABLES = ("exchanges", "partitions", "connections", "ends")


def tables(folder: Path) -> tuple[dict[str, list], int, int]:
    """Return the rows of all tables, the number of batches of partitions, and the rows of the largest."""
    splits = index_captures(open_inputs([str(CAPTURE)], str(folder)).files).splits
    rows: dict[str, list] = {name: [] for name in TABLES}
    batches: list[pa.RecordBatch] = []
    for found in dissect_batches((scan_split(split) for split in splits), splits, wanted=("ends",)):
        batches += [found["partitions"]] if "partitions" in found else []
        for name in TABLES:
            rows[name] += found[name].to_pylist() if name in found else []
    rows["ends"] = sorted({str(row) for row in rows["ends"]})
    return rows, len(batches), max(batch.num_rows for batch in batches)


@pytest.mark.parametrize(("together", "text"), [(5, 64), (1, 64), (1000, 1)])
def test_rows_are_the_same_however_many_are_made_together(
    together: int, text: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, few, most = tables(tmp_path)
    monkeypatch.setattr(message_columns, "MOST_ROWS", together)
    monkeypatch.setattr("kdissect.protocol.columnar.batch_reader.TEXT_OF_ROW", text)
    parts, many, largest = tables(tmp_path)
    assert parts == whole
    assert many > few
    assert largest < most
