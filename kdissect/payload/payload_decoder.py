"""From the bytes of a key or a value to what they say: a value with its format, or a fault.

In come bytes, their topic and the headers of their record. An id in front of the bytes, or in a header, names
the schema. Without one the schema of the subject `TOPIC-key` or `TOPIC-value` counts, if there is one. All
other bytes are JSON, text, or neither.

For one topic, the decoder also keeps which schemas its values had (`used_schemas`), from which columns of SQL
get their types.

A fault has its reason, such as "unknown schema id 17". The bytes themselves are never lost: callers show them
beside it. A value of more than MOST_BYTES is not decoded.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import UUID

from kdissect.payload.avro_reader import avro_reader
from kdissect.payload.plain_reader import looks_like_json, read_json, read_text
from kdissect.payload.protobuf_reader import protobuf_reader
from kdissect.payload.schema_store import Schema, SchemaKind, SchemaStore
from kdissect.payload.wire_format import framed_value, message_indexes
from kdissect.protocol.records.record_decoder import RecordHeader

MOST_BYTES = 1 << 20
MOST_NOTED = 256  # schemas of a topic

Read = Callable[[bytes], Any]


class Payload(NamedTuple):
    """Meaning of bytes.

    `format` is `avro`, `protobuf`, `json`, `text` or `bytes`; `fault` says why a value could not be decoded.
    """

    format: str
    value: Any = None
    schema_id: int | UUID | None = None
    fault: str | None = None


class UsedSchema(NamedTuple):
    """A schema that keys or values of a topic had: its name, and the path of a message of Protobuf."""

    part: str
    name: int | UUID | str
    path: tuple[int, ...]


class _SchemaInUse(NamedTuple):
    """The schema of some bytes; `framed` if an id before them or in a header named it, else its subject."""

    name: int | UUID | str
    schema: Schema
    body: bytes
    framed: bool

    @property
    def number(self) -> int | UUID | None:
        """The id that named it."""
        return None if isinstance(self.name, str) else self.name


class PayloadDecoder:
    """Decodes keys and values; each schema is parsed once.

    It notes the schemas of the `noted_topic`. `topic_names` has the names of topics by id, as Kafka prints
    it.
    """

    def __init__(
        self,
        store: SchemaStore | None = None,
        noted_topic: str | None = None,
        topic_names: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._store = store
        self.topic_names = topic_names
        self._noted_topic = noted_topic
        self._readers: dict[tuple[int | UUID | str, bool], Read | str] = {}
        self.used_schemas: dict[UsedSchema, Schema] = {}

    def decode(
        self, data: bytes | None, topic: str | None, part: str = "value", headers: Sequence[RecordHeader] = ()
    ) -> Payload | None:
        """Return what a `key` or a `value` says; None for null."""
        if data is None:
            return None
        if len(data) > MOST_BYTES:
            return Payload("bytes", fault=f"{len(data):,} bytes; more than {MOST_BYTES:,} are not decoded")
        if self._store is not None:
            found = self._with_schema(self._store, data, topic, part, headers)
            if found is not None:
                return found
        return without_schema(data)

    def _with_schema(
        self, store: SchemaStore, data: bytes, topic: str | None, part: str, headers: Sequence[RecordHeader]
    ) -> Payload | None:
        """Return what bytes with a schema say, and note the schema; None if they have none."""
        found = _schema_of(store, data, topic, part, headers)
        if not isinstance(found, _SchemaInUse):
            return found
        payload = self._read(found)
        if payload.fault is None and topic is not None and topic == self._noted_topic:
            self._note(part, found)
        return payload

    def _note(self, part: str, found: "_SchemaInUse") -> None:
        if len(self.used_schemas) >= MOST_NOTED:
            return
        has_path = found.framed and found.schema.kind is SchemaKind.PROTOBUF
        path = message_indexes(found.body)[0] if has_path else (0,)
        self.used_schemas.setdefault(UsedSchema(part, found.name, path), found.schema)

    def _read(self, found: "_SchemaInUse") -> Payload:
        format = found.schema.kind.value.lower()
        reader = self._reader(found.name, found.schema, found.framed)
        if isinstance(reader, str):
            return Payload(format, schema_id=found.number, fault=reader)
        try:
            return Payload(format, reader(found.body), found.number)
        except (
            ValueError,
            EOFError,
            IndexError,
            KeyError,
            TypeError,
            OverflowError,
            RecursionError,
        ) as error:
            return Payload(format, schema_id=found.number, fault=f"no value of its schema: {_reason(error)}")

    def _reader(self, name: int | UUID | str, schema: Schema, has_indexes: bool) -> Read | str:
        key = (name, has_indexes)
        if key not in self._readers:
            try:
                self._readers[key] = _new_reader(schema, has_indexes)
            except ValueError as error:
                self._readers[key] = str(error)
        return self._readers[key]


def _schema_of(
    store: SchemaStore, data: bytes, topic: str | None, part: str, headers: Sequence[RecordHeader]
) -> _SchemaInUse | Payload | None:
    """Return the schema of bytes, a fault if it cannot be had, or None if nothing names one."""
    subject = f"{topic}-{part}"
    framed = framed_value(data, part, headers, store.has_id)
    if framed is not None:
        schema = store.find(framed.schema_id)
        if isinstance(schema, Schema):
            return _SchemaInUse(framed.schema_id, schema, framed.body, True)
        if schema is not None or not isinstance(store.find(subject), Schema):
            if store.is_empty:
                return None
            reason = f": {schema}" if schema else ""
            fault = f"unknown schema id {framed.schema_id}{reason}"
            return Payload("bytes", schema_id=framed.schema_id, fault=fault)
    found = store.find(subject) if topic is not None else None
    if found is None:
        return None
    if isinstance(found, str):
        return Payload("bytes", fault=f"subject {subject}: {found}")
    return _SchemaInUse(subject, found, data, False)


def without_schema(data: bytes) -> Payload:
    """Return what bytes without a schema say."""
    if looks_like_json(data):
        try:
            return Payload("json", read_json(data))
        except ValueError:
            pass
    text = read_text(data)
    return Payload("bytes") if text is None else Payload("text", text)


def _new_reader(schema: Schema, has_indexes: bool) -> Read:
    if schema.kind is SchemaKind.AVRO:
        return avro_reader(schema)
    if schema.kind is SchemaKind.PROTOBUF:
        return protobuf_reader(schema, has_indexes=has_indexes)
    return read_json


def _reason(error: Exception) -> str:
    text = str(error).partition("\n")[0]
    return text or "ends early" if isinstance(error, EOFError) else text or type(error).__name__
