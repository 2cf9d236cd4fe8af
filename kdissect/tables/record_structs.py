"""Keys and values of the records of one topic as structs: columns with fields that SQL can name.

In come rows of `records` and the types of the schemas that the topic's records had, out go the same rows with
the columns `key_struct` and `value_struct`. Each schema version has a type (`payload.value_types`). The
column has the fields of all of them, in the order of schema ids; a field with two types is text. A value that
does not fit is null there, and `fault` says why.

Types come from the tasks that decode records, as rows of RECORD_TYPES.
"""

import datetime as dt
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import reduce
from typing import Any

import pyarrow as pa

from kdissect.payload.payload_decoder import PayloadDecoder
from kdissect.payload.value_types import MOST_FIELDS, count_fields, value_type
from kdissect.tables.schemas import RECORDS

RECORD_TYPES = pa.schema([("part", pa.string()), ("schema", pa.string()), ("type", pa.binary())])
"""Part (`key` or `value`), name of the schema for the order, and its type as a serialized Arrow schema."""

PARTS = ("key", "value")
WITH_FIELDS = ("avro", "protobuf", "json")
YEARS = range(2, 9999)
WIDER = ((pa.int32(), pa.int64()), (pa.float32(), pa.float64()), (pa.int32(), pa.float64()),
         (pa.int64(), pa.float64()))  # fmt: skip
NOT_FINITE = {"nan", "inf", "-inf", "infinity", "-infinity"}

Convert = Callable[[Any], Any]


def record_types(decoder: PayloadDecoder) -> pa.RecordBatch:
    """Return the types of the schemas that a decoder has used, as rows of RECORD_TYPES."""
    rows = []
    for used, schema in decoder.used_schemas.items():
        try:
            kind = value_type(schema, used.path)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            continue  # its values were decoded all the same
        if kind is not None:
            order = f"{used.name:020}" if isinstance(used.name, int) else str(used.name)
            packed = pa.schema([("value", kind)]).serialize().to_pybytes()
            rows.append({"part": used.part, "schema": f"{order} {used.path}", "type": packed})
    return pa.RecordBatch.from_pylist(rows, RECORD_TYPES)


@dataclass(frozen=True)
class RecordStructs:
    """The columns that records of a topic get: by part (`key`, `value`) the type of its column."""

    topic: str
    types: Mapping[str, pa.DataType]

    @classmethod
    def of(cls, topic: str, batches: Iterable[pa.RecordBatch]) -> "RecordStructs":
        """Return the columns for rows of RECORD_TYPES from all tasks."""
        found = {(row["schema"], row["part"]): row["type"] for batch in batches for row in batch.to_pylist()}
        types: dict[str, list[pa.DataType]] = {}
        for (_, part), packed in sorted(found.items()):
            kind = pa.ipc.read_schema(pa.py_buffer(packed)).field("value").type
            types.setdefault(part, []).append(kind)
        return cls(topic, {part: united_type(types[part]) for part in PARTS if part in types})

    @property
    def schema(self) -> pa.Schema:
        """The columns of RECORDS, and those of structs behind them."""
        added = [pa.field(f"{part}_struct", kind) for part, kind in self.types.items()]
        return pa.schema([*RECORDS, *added])

    def add(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows of RECORDS with their structs."""
        faults = rows["fault"].to_pylist()
        is_of_topic = [name == self.topic for name in rows["topic"].to_pylist()]
        columns = []
        for part, kind in self.types.items():
            texts, formats = rows[part].to_pylist(), rows[f"{part}_format"].to_pylist()
            convert = converter(kind)
            values = []
            for row, text in enumerate(texts):
                value = None
                if text is not None and is_of_topic[row] and formats[row] in WITH_FIELDS:
                    value, faults[row] = _value(text, convert, part, faults[row])
                values.append(value)
            columns.append(pa.array(values, kind))
        place = rows.schema.get_field_index("fault")
        rows = rows.set_column(place, rows.schema.field(place), pa.array(faults, pa.string()))
        return pa.RecordBatch.from_arrays([*rows.columns, *columns], schema=self.schema)


def _value(text: str, convert: Convert, part: str, fault: str | None) -> tuple[Any, str | None]:
    """Return the struct of a value and the fault of its row."""
    if fault is not None and f"{part}: " in fault:
        return None, fault
    try:
        return convert(json.loads(text)), fault
    except (ValueError, RecursionError) as error:
        reason = f"{part}: does not fit its column of fields: {error}"
        return None, reason if fault is None else f"{fault}; {reason}"


def united_type(types: Sequence[pa.DataType]) -> pa.DataType:
    """Return a type that has the fields of all; text, if there are more than MOST_FIELDS."""
    found = reduce(_united, types)
    return found if count_fields(found) <= MOST_FIELDS else types[-1]


def _united(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    if one == other:
        return one
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        fields = {field.name: field.type for field in one}
        for field in other:
            known = fields.get(field.name)
            fields[field.name] = field.type if known is None else _united(known, field.type)
        return pa.struct(list(fields.items()))
    if pa.types.is_list(one) and pa.types.is_list(other):
        return pa.list_(_united(one.value_type, other.value_type))
    if pa.types.is_map(one) and pa.types.is_map(other):
        return pa.map_(pa.string(), _united(one.item_type, other.item_type))
    return next((wide for narrow, wide in WIDER if {one, other} == {narrow, wide}), pa.string())


def converter(kind: pa.DataType) -> Convert:
    """Return the function from a tree of JSON's types to a value of an Arrow type.

    It raises ValueError for what does not fit.
    """
    convert = _new_converter(kind)
    return lambda value: None if value is None else convert(value)


def _new_converter(kind: pa.DataType) -> Convert:
    if pa.types.is_struct(kind):
        fields = [(field.name, converter(field.type)) for field in kind]
        return lambda value: _struct(value, fields)
    if pa.types.is_list(kind):
        one = converter(kind.value_type)
        return lambda value: [one(item) for item in _of(value, list, "list")]
    if pa.types.is_map(kind):
        one = converter(kind.item_type)
        return lambda value: [(name, one(item)) for name, item in _of(value, dict, "object").items()]
    if pa.types.is_integer(kind):
        most = 1 << (kind.bit_width - 1)
        return lambda value: _integer(value, most)
    if pa.types.is_decimal(kind):
        return lambda value: _decimal(value, kind.precision, kind.scale)
    return SCALARS[kind.id]


def _struct(value: Any, fields: Sequence[tuple[str, Convert]]) -> dict[str, Any]:
    found = _of(value, dict, "object")
    return {name: convert(found.get(name)) for name, convert in fields}


def _of(value: Any, kind: type, word: str) -> Any:
    if isinstance(value, kind):
        return value
    raise ValueError(f"{_shown(value)} is no {word}")


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else f"{text[:40]}…"


def _integer(value: Any, most: int) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and -most <= value < most:
        return value
    if isinstance(value, float) and value.is_integer() and -most <= value < most:
        return int(value)
    raise ValueError(f"{_shown(value)} is no whole number of that size")


def _float(value: Any) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            pass
    if isinstance(value, str) and value.lower() in NOT_FINITE:
        return float(value)
    raise ValueError(f"{_shown(value)} is no number")


def _bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise ValueError(f"{_shown(value)} is neither true nor false")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _decimal(value: Any, precision: int, scale: int) -> Decimal:
    try:
        found = Decimal(str(value))
        digits, exponent = len(found.as_tuple().digits), found.as_tuple().exponent
    except InvalidOperation:
        digits, exponent = precision + 1, 0
    if not isinstance(exponent, int) or -exponent > scale or digits + exponent + scale > precision:
        raise ValueError(f"{_shown(value)} is no decimal with {precision} digits, {scale} behind the point")
    return found


def _date(value: Any) -> dt.date:
    found = dt.date.fromisoformat(_of(value, str, "date"))
    return found if found.year in YEARS else _far(value)


def _timestamp(value: Any) -> dt.datetime:
    found = dt.datetime.fromisoformat(_of(value, str, "timestamp"))
    found = found if found.tzinfo else found.replace(tzinfo=dt.UTC)
    return found if found.year in YEARS else _far(value)


def _far(value: Any) -> Any:
    raise ValueError(f"{_shown(value)} is too far away")


SCALARS: Mapping[int, Convert] = {
    pa.bool_().id: _bool,
    pa.float32().id: _float,
    pa.float64().id: _float,
    pa.string().id: _text,
    pa.date32().id: _date,
    pa.timestamp("us").id: _timestamp,
}
