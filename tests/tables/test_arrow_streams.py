"""Streams are written into the room that they need, whatever they hold."""

import numpy as np
import pyarrow as pa
import pytest

from kdissect.tables.arrow_streams import Stream, write_streams


@pytest.mark.parametrize("columns", [1, 60])
@pytest.mark.parametrize("rows", [0, 3, 20_000])
def test_streams_are_read_back_from_their_places(columns: int, rows: int) -> None:
    """Random numbers cannot be compressed."""
    rng = np.random.default_rng(columns)
    numbers = {str(name): rng.integers(-(1 << 62), 1 << 62, rows) for name in range(columns)}
    table = pa.table(numbers | {"text": pa.array(["a"] * rows, pa.string()).dictionary_encode()})
    batch = pa.record_batch({"number": np.arange(rows)})
    written = [Stream(table, "lz4"), Stream(batch), Stream(table), Stream(batch, "lz4")]
    buffer, places = write_streams(written)
    assert places[0] == 0
    assert len(buffer) == places[-1]
    for stream, begin, end in zip(written, places, places[1:], strict=False):
        found = pa.ipc.open_stream(buffer.slice(begin, end - begin)).read_all()
        assert found.equals(stream.rows if isinstance(stream.rows, pa.Table) else pa.table(stream.rows))


def test_nothing_is_written() -> None:
    buffer, places = write_streams([])
    assert (len(buffer), places) == (0, [0])
