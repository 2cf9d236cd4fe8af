"""Files of figures hold no code: one that is damaged, or of another version, is refused by one sentence."""

import pyarrow as pa
import pytest

from kdissect.report.partials import PARTIAL
from kdissect.report.timeline.timeline_tables import ACTIVITY
from kdissect.spark.watch import figure_files
from kdissect.spark.watch.figure_files import (
    FiguresError,
    batches_of,
    read_header,
    read_partial,
    to_bytes,
)
from tests.helpers.made_figures import STEP_NS, activity, header


def test_ranges_within_others_do_not_count() -> None:
    found = batches_of(["00000000-00000004.arrow", "00000003-00000003.arrow", "00000005-00000005.arrow", "x"])
    assert found == [(0, 4), (5, 5)]


def other_columns() -> pa.RecordBatch:
    """Return a partial whose table ACTIVITY has the columns of another version."""
    other, sink = pa.table({"x": [1]}), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, other.schema) as stream:
        stream.write_table(other)
    return pa.record_batch([[ACTIVITY.name], [sink.getvalue().to_pybytes()]], schema=PARTIAL)


def test_damaged_files_are_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    data = to_bytes(header(0, STEP_NS), activity(0, 1))
    assert read_header(data, "a") == header(0, STEP_NS)
    for wrong in (b"", data[:100], b"\xff" * 64, data.replace(b'"format": 1', b'"format": 7')):
        with pytest.raises(FiguresError):
            read_header(wrong, "a")
    with pytest.raises(FiguresError):
        read_partial(data[: len(data) * 3 // 4], "a")
    monkeypatch.setattr(figure_files, "to_arrow", lambda _: other_columns())
    with pytest.raises(FiguresError, match="another version"):
        read_partial(to_bytes(header(0, 0), activity(0, 1)), "a")
