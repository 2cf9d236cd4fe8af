"""Columns of structs: the union of versions, values that fit and values that do not."""

import datetime as dt
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from kdissect.payload.payload_decoder import PayloadDecoder, UsedSchema
from kdissect.payload.schema_store import Schema, SchemaKind
from kdissect.tables.record_structs import RecordStructs, converter, record_types, united_type
from kdissect.tables.schemas import RECORDS

LONG, TEXT = pa.int64(), pa.string()


def record(
    *values: tuple[str | None, str | None], fault: str | None = None, topic: str = "t"
) -> pa.RecordBatch:
    base = dict.fromkeys(RECORDS.names) | {"topic": topic, "fault": fault}
    return pa.RecordBatch.from_pylist(
        [base | {"value": text, "value_format": format} for text, format in values], RECORDS
    )


def structs(*fields: tuple[str, pa.DataType]) -> RecordStructs:
    return RecordStructs("t", {"value": pa.struct(fields)})


def test_versions_are_united() -> None:
    old = pa.struct([("a", pa.int32()), ("b", TEXT), ("c", pa.struct([("x", LONG)]))])
    new = pa.struct([("a", LONG), ("b", LONG), ("c", pa.struct([("y", TEXT)])), ("d", pa.list_(LONG))])
    assert united_type([old, new]) == pa.struct(
        [("a", LONG), ("b", TEXT), ("c", pa.struct([("x", LONG), ("y", TEXT)])), ("d", pa.list_(LONG))]
    )
    assert united_type([old]) == old


def test_types_come_from_tasks_in_the_order_of_ids() -> None:
    def avro(name: str) -> Schema:
        fields = [{"name": name, "type": "long"}]
        return Schema(SchemaKind.AVRO, json.dumps({"type": "record", "name": "R", "fields": fields}))

    decoder = PayloadDecoder()
    decoder.used_schemas[UsedSchema("value", 100, (0,))] = avro("new")
    decoder.used_schemas[UsedSchema("value", 17, (0,))] = avro("old")
    decoder.used_schemas[UsedSchema("key", 5, (0,))] = Schema(SchemaKind.AVRO, '"long"')
    decoder.used_schemas[UsedSchema("value", 6, (0,))] = Schema(SchemaKind.AVRO, "no schema")
    found = RecordStructs.of("t", [record_types(decoder), record_types(decoder)])
    assert found.types == {"value": pa.struct([("old", LONG), ("new", LONG)])}
    assert found.schema.names == [*RECORDS.names, "value_struct"]


def test_values_that_fit_and_values_that_do_not() -> None:
    rows = record(
        ('{"id": 1, "more": 2}', "json"), ('{"id": "x"}', "avro"), ("[1]", "json"), ("text", "text"),
        (None, None), ('{"id": null}', "protobuf"),
    )  # fmt: skip
    found = structs(("id", LONG)).add(rows)
    assert found["value_struct"].to_pylist() == [{"id": 1}, None, None, None, None, {"id": None}]
    reason = "value: does not fit its column of fields: "
    assert found["fault"].to_pylist() == [
        None, f'{reason}"x" is no whole number of that size', f"{reason}[1] is no object", None, None, None,
    ]  # fmt: skip


def test_faults_and_other_topics_stay_as_they_are() -> None:
    faulty = structs(("id", LONG)).add(record(('{"id": 1}', "avro"), fault="value: ends early"))
    assert faulty["value_struct"].to_pylist() == [None]
    assert faulty["fault"].to_pylist() == ["value: ends early"]
    other = structs(("id", LONG)).add(record(('{"id": "x"}', "json"), topic="u"))
    assert (other["value_struct"].to_pylist(), other["fault"].to_pylist()) == ([None], [None])
    of_key = structs(("id", LONG)).add(record(('{"id": "x"}', "json"), fault="key: ends early"))
    assert of_key["fault"].to_pylist()[0].startswith("key: ends early; value: does not fit")


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (pa.int32(), 2**31 - 1, 2**31 - 1),
        (LONG, 5.0, 5),
        (pa.float64(), 1, 1.0),
        (pa.float64(), "Infinity", float("inf")),
        (pa.bool_(), True, True),
        (TEXT, {"a": 1}, '{"a": 1}'),
        (pa.decimal128(8, 2), "-12.30", Decimal("-12.30")),
        (pa.date32(), "2026-05-01", dt.date(2026, 5, 1)),
        (pa.timestamp("us", "UTC"), "2026-05-01T00:00:00Z", dt.datetime(2026, 5, 1, tzinfo=dt.UTC)),
        (pa.map_(TEXT, LONG), {"a": 1}, [("a", 1)]),
        (pa.list_(TEXT), ["a", None], ["a", None]),
        (LONG, None, None),
    ],
)
def test_conversions(kind: pa.DataType, value: Any, expected: Any) -> None:
    found = converter(kind)(value)
    assert found == expected
    assert pa.array([found], kind).to_pylist() == [expected]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.int32(), 2**31), (LONG, True), (LONG, 1.5), (LONG, float("nan")), (pa.float64(), "x"),
        (pa.float64(), 10**400),
        (pa.bool_(), 1), (pa.decimal128(4, 2), "123.45"), (pa.decimal128(4, 2), "1.234"),
        (pa.decimal128(4, 2), "NaN"), (pa.decimal128(4, 2), {}), (pa.date32(), "soon"), (pa.date32(), 5),
        (pa.timestamp("us", "UTC"), "9999-12-31T23:59:59+00:00"), (pa.map_(TEXT, LONG), [1]),
        (pa.list_(LONG), {}), (pa.struct([("a", LONG)]), "x"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_a_value_error(kind: pa.DataType, value: Any) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        converter(kind)(value)
    assert len(str(caught.value)) < 200
