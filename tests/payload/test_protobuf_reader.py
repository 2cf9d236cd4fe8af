"""Protobuf as Google's library writes it, in nested types too, and what hostile bytes do."""

import random
from base64 import b64encode
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from kdissect.payload.protobuf_reader import protobuf_reader
from kdissect.payload.schema_store import Schema, SchemaKind

T = descriptor_pb2.FieldDescriptorProto


def described() -> descriptor_pb2.FileDescriptorSet:
    """Return message First { string a = 1; } and Order with 64-bit numbers, a list, and Inner inside."""
    file = descriptor_pb2.FileDescriptorProto(name="orders.proto", package="shop", syntax="proto3")
    file.message_type.add(name="First").field.add(
        name="a", number=1, type=T.TYPE_STRING, label=T.LABEL_OPTIONAL
    )
    order = file.message_type.add(name="Order")
    order.field.add(name="order_id", number=1, type=T.TYPE_INT64, label=T.LABEL_OPTIONAL)
    order.field.add(name="tags", number=2, type=T.TYPE_STRING, label=T.LABEL_REPEATED)
    order.field.add(name="totals", number=3, type=T.TYPE_UINT64, label=T.LABEL_REPEATED)
    order.field.add(
        name="inner", number=4, type=T.TYPE_MESSAGE, label=T.LABEL_OPTIONAL, type_name=".shop.Order.Inner"
    )
    inner = order.nested_type.add(name="Inner")
    inner.field.add(name="count", number=1, type=T.TYPE_INT64, label=T.LABEL_OPTIONAL)
    inner.field.add(
        name="again", number=2, type=T.TYPE_MESSAGE, label=T.LABEL_OPTIONAL, type_name=".shop.Order"
    )
    return descriptor_pb2.FileDescriptorSet(file=[file])


FILES = described()


def b64_descriptor() -> str:
    """Return the file as Confluent's clients register it."""
    return b64encode(FILES.file[0].SerializeToString()).decode()


SCHEMA = Schema(SchemaKind.PROTOBUF, FILES.SerializeToString())


def message(name: str, **fields: Any) -> Any:
    pool = descriptor_pool.DescriptorPool()
    pool.Add(FILES.file[0])
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))(**fields)


def test_messages_as_they_were_written() -> None:
    order = message("shop.Order", order_id=2**60, tags=["a"], totals=[1, 2**63], inner={"count": -5})
    read = protobuf_reader(SCHEMA, has_indexes=True)
    expected = {"order_id": 2**60, "tags": ["a"], "totals": [1, 2**63], "inner": {"count": -5}}
    assert read(b"\x02\x02" + order.SerializeToString()) == expected
    assert read(b"\0" + message("shop.First", a="x").SerializeToString()) == {"a": "x"}
    inner = message("shop.Order.Inner", count=7).SerializeToString()
    assert read(b"\x04\x02\x00" + inner) == {"count": 7}
    assert protobuf_reader(SCHEMA, has_indexes=False)(b"\x0a\x01y") == {"a": "y"}


def test_wrong_indexes_and_schemas() -> None:
    read = protobuf_reader(SCHEMA, has_indexes=True)
    with pytest.raises(ValueError, match="no message type"):
        read(b"\x02\x20")
    for definition in (b"", b"\xff\xff"):
        with pytest.raises(ValueError, match="no set of Protobuf descriptors"):
            protobuf_reader(Schema(SchemaKind.PROTOBUF, definition), has_indexes=True)


def test_any_bytes_end_soon() -> None:
    read, chance = protobuf_reader(SCHEMA, has_indexes=True), random.Random(4)
    good = b"\x02\x02" + message("shop.Order", order_id=5, tags=["a" * 9], totals=[1, 2]).SerializeToString()
    refused = 0
    for _ in range(2000):
        data = bytearray(good)
        data[chance.randrange(len(data))] = chance.randrange(256)
        try:
            read(bytes(data))
        except ValueError:
            refused += 1
    assert 0 < refused < 2000
    nested = b"\x22\x02\x12\x00"
    for _ in range(200):
        inner = b"\x12" + _varint(len(nested)) + nested
        nested = b"\x22" + _varint(len(inner)) + inner
    with pytest.raises(ValueError, match=r"."):
        read(b"\x02\x02" + nested)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])
