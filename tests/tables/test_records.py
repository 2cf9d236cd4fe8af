"""Rows of `records`: those that the library reads, decoded, bounded, without content if anonymized."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kdissect.capture.index.index import index_captures
from kdissect.capture.inputs import open_inputs
from kdissect.library.captured_exchanges import read
from kdissect.payload.schema_files import SchemaFolder
from kdissect.payload.schema_store import SchemaStore
from kdissect.protocol.codec.messages import encode_request, encode_response
from kdissect.protocol.records.record_decoder import Record, RecordBatch, RecordHeader
from kdissect.protocol.records.record_encoder import encode_batch
from kdissect.spark import tasks
from kdissect.spark.task_tables import TableOptions
from kdissect.tables import records as module
from kdissect.tables.anonymize import Pseudonyms
from kdissect.tables.filters import Filter
from tests.helpers.handmade_capture import write_capture

CAPTURES = Path(__file__).parents[2] / "captures"
BATCH = RecordBatch(0, 2, 4, 0, False, None)
VALUES = (b'{"amount": 5}', b"\0\0\0\0\x11\x0e", b"\0\0\0\0\x63x", b"text", None, b"\xff", b"y" * 70_000)


def rows(path: Path, **options: Any) -> list[dict[str, Any]]:
    found = index_captures(open_inputs([str(path)], "").files, 1 << 20)
    ordinals = (pa.record_batch({"split": [split.index]}) for split in found.splits)
    pieces = tasks.scan_step(ordinals, found.splits, ())
    made = tasks.tables_step(pieces, found.splits, ("records",), TableOptions(**options))
    return [row for name, batch in made if name == "records" for row in batch.to_pylist()]


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    headers = (RecordHeader(b"source", b"mobile"), RecordHeader(b"raw", b"\xff"))
    records = [Record(BATCH, at, 1000 + at, b"k%d" % at, value, headers) for at, value in enumerate(VALUES)]
    header = {"request_api_key": 0, "request_api_version": 9, "correlation_id": 1, "client_id": "me"}
    body = {"transactional_id": None, "acks": 1, "timeout_ms": 0, "topic_data": [
        {"name": "users", "partition_data": [{"index": 3, "records": encode_batch(records)}]}]}  # fmt: skip
    answer = encode_response(0, 9, {"correlation_id": 1}, {"responses": []})
    return write_capture(tmp_path / "talk.pcap", [(True, encode_request(header, body)), (False, answer)])


def test_values_formats_and_faults(capture: Path, tmp_path: Path) -> None:
    folder = tmp_path / "schemas"
    folder.mkdir()
    user = {"type": "record", "name": "User", "fields": [{"name": "id", "type": "long"}]}
    (folder / "17.avsc").write_text(json.dumps(user))
    found = rows(capture, schemas=SchemaStore([SchemaFolder(str(folder))]))
    assert [(row["value"], row["value_format"], row["value_schema"], row["fault"]) for row in found] == [
        ('{"amount": 5}', "json", None, None),
        ('{"id": 7}', "avro", 17, None),
        ("AAAAAGN4", "bytes", 99, "value: unknown schema id 99"),
        ("text", "text", None, None),
        (None, None, None, None),
        ("/w==", "bytes", None, None),
        (None, None, None, "value: 70,000 bytes; more than 65,536 are left out"),
    ]
    first = found[0]
    assert (first["topic"], first["partition"], first["offset"], first["key"]) == ("users", 3, 0, "k0")
    assert (first["time_ns"], first["packet"], first["capture_file"]) == (1000 * 10**6, 4, str(capture))
    assert json.loads(first["headers"]) == {"source": "mobile", "raw": "/w=="}
    assert found[-1]["value_bytes"] == 70_000


def test_anonymized_rows_have_no_content(capture: Path) -> None:
    found = rows(capture, pseudonyms=Pseudonyms.new("a key"))
    assert len(found) == len(VALUES)
    assert {row[name] for row in found for name in ("key", "value", "headers", "fault")} == {None}
    assert found[0]["topic"].startswith("topic-")
    assert found[0]["value_bytes"] == len(VALUES[0])


def test_filters_apply(capture: Path) -> None:
    assert rows(capture, filter=Filter(topics=("nobody",))) == []
    assert len(rows(capture, filter=Filter(topics=("users",)))) == len(VALUES)


@pytest.mark.parametrize("part_bytes", [1, 1 << 22])
@pytest.mark.slow
def test_the_same_records_as_the_library_reads(part_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PART_BYTES", part_bytes)
    monkeypatch.setattr(module, "BATCH_ROWS", 3)
    path = CAPTURES / "pause.pcapng"
    expected = sorted(
        (one.connection, one.ordinal or 0, record.partition, record.offset, (record.value or b"").decode())
        for one in read(str(path))
        for record in one.records
        if record.control is None and record.topic != "__consumer_offsets"
    )
    found = sorted(
        (row["connection"], row["ordinal"], row["partition"], row["offset"], len(row["value"] or ""))
        for row in rows(path)
        if row["control"] is None
    )
    assert len(found) == len(expected) > 50
    assert [row[:4] for row in found] == [row[:4] for row in expected]
