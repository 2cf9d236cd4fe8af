"""Places of a schema's id: in front of a value, or in a header of its record.

- Confluent: a byte 0 and 4 bytes of id. For Protobuf the path of the message type in its file follows, as
  varints with their count in front; a single 0 stands for the first type.
  https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html#wire-format
- Confluent since 8.0: the header `__value_schema_id` (`__key_schema_id` for keys) with a byte 1 and the 16
  bytes of a GUID, or a byte 0 and 4 bytes of id, and no byte in front of the value. The path of a Protobuf
  type follows in the header.
- Apicurio: a byte 0 and 8 bytes of id, or 4 with its setting for Confluent; or the header
  `apicurio.value.globalId` or `apicurio.value.contentId` (`apicurio.key…` for keys) with 8 bytes, and no byte
  in front of the value.

The bytes do not tell if 4 or 8 of them follow the 0. The ids that are known decide; Confluent's comes first.
If neither is known, 8 of them are the id where the first 4 are 0, which no registry has as an id.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple
from uuid import UUID

from kdissect.protocol.records.record_decoder import RecordHeader

MAGIC, MAGIC_GUID = 0, 1
GUID_BYTES = 16
CONFLUENT_HEADER = "__{part}_schema_id"
CONFLUENT_BYTES, APICURIO_BYTES = 4, 8
APICURIO_HEADERS = ("apicurio.{part}.globalId", "apicurio.{part}.contentId")
MOST_INDEXES = 16  # depth of a message type in messages
MOST_VARINT = 10  # bytes


class FramedValue(NamedTuple):
    """The id of a schema, and the bytes that it describes."""

    schema_id: int | UUID
    body: bytes


def framed_value(
    data: bytes, part: str, headers: Iterable[RecordHeader], is_known: Callable[[int | UUID], bool]
) -> FramedValue | None:
    """Return the schema id of a `key` or `value` and the bytes behind it; None if it has none."""
    from_header = _in_header(data, part, headers)
    if from_header is not None:
        return from_header
    if len(data) <= CONFLUENT_BYTES or data[0] != MAGIC:
        return None
    short = FramedValue(int.from_bytes(data[1 : 1 + CONFLUENT_BYTES]), data[1 + CONFLUENT_BYTES :])
    if len(data) > APICURIO_BYTES and not is_known(short.schema_id):
        long = FramedValue(int.from_bytes(data[1 : 1 + APICURIO_BYTES]), data[1 + APICURIO_BYTES :])
        if is_known(long.schema_id) or short.schema_id == 0:
            return long
    return short


def _in_header(data: bytes, part: str, headers: Iterable[RecordHeader]) -> FramedValue | None:
    names = {one.format(part=part).encode() for one in APICURIO_HEADERS}
    confluent = CONFLUENT_HEADER.format(part=part).encode()
    for key, value in headers:
        if value is None:
            continue
        if key in names and len(value) == APICURIO_BYTES:
            return FramedValue(int.from_bytes(value), data)
        if key == confluent and value[:1] == bytes([MAGIC_GUID]) and len(value) > GUID_BYTES:
            guid, rest = value[1 : 1 + GUID_BYTES], value[1 + GUID_BYTES :]
            return FramedValue(UUID(bytes=guid), rest + data)
        if key == confluent and value[:1] == bytes([MAGIC]) and len(value) > CONFLUENT_BYTES:
            number, rest = value[1 : 1 + CONFLUENT_BYTES], value[1 + CONFLUENT_BYTES :]
            return FramedValue(int.from_bytes(number), rest + data)
    return None


def message_indexes(body: bytes) -> tuple[tuple[int, ...], bytes]:
    """Return the path of a Protobuf message type in its file, and the message. Raise ValueError."""
    count, position = _zigzag(body, 0)
    if count == 0:
        return (0,), body[position:]
    if not 0 < count <= MOST_INDEXES:
        raise ValueError(f"{count} message indexes")
    indexes = []
    for _ in range(count):
        index, position = _zigzag(body, position)
        indexes.append(index)
    return tuple(indexes), body[position:]


def _zigzag(data: bytes, position: int) -> tuple[int, int]:
    value = 0
    for shift, byte in enumerate(data[position : position + MOST_VARINT]):
        value |= (byte & 0x7F) << 7 * shift
        if byte < 0x80:
            return value >> 1 ^ -(value & 1), position + shift + 1
    raise ValueError("the message indexes end early")
