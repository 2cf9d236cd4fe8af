"""Values of Protobuf, by Google's library, which is loaded when the first schema comes.

In come a FileDescriptorSet, the path of a message type in its last file, and the bytes of one message, out
goes a tree of JSON's types: field names as in the file, 64-bit integers as numbers. The library bounds depth
(100 levels), and reads no more than there is.
"""

from collections.abc import Callable
from typing import Any

from kdissect.payload.schema_store import Schema
from kdissect.payload.wire_format import message_indexes

MISSING = "Protobuf needs protobuf: pip install 'kdissect[payload]'"


def protobuf_reader(schema: Schema, *, has_indexes: bool) -> Callable[[bytes], Any]:
    """Return the function that reads messages of a schema. Raise ValueError if there cannot be one.

    With `has_indexes` the path of the message type stands in front of each; otherwise the first type counts.
    """
    try:
        from google.protobuf import json_format, message
    except ImportError:
        raise ValueError(MISSING) from None
    type_at = message_types(schema)

    def read(data: bytes) -> Any:
        path, body = message_indexes(data) if has_indexes else ((0,), data)
        one = type_at(path)()
        try:
            one.ParseFromString(body)
        except message.DecodeError as error:
            raise ValueError(str(error)) from None
        tree = json_format.MessageToDict(one, preserving_proto_field_name=True)
        return _with_numbers(tree, one.DESCRIPTOR)

    return read


def message_types(schema: Schema) -> Callable[[tuple[int, ...]], Any]:
    """Return the function from the path of a message type in its file to its class.

    Both raise ValueError for what there is not.
    """
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message, message_factory
    except ImportError:
        raise ValueError(MISSING) from None
    pool = descriptor_pool.DescriptorPool()
    files = descriptor_pb2.FileDescriptorSet()
    try:
        files.ParseFromString(schema.definition)
        for file in files.file:
            pool.Add(file)
        last = pool.FindFileByName(files.file[-1].name)
    except (message.DecodeError, TypeError, KeyError, IndexError) as error:
        raise ValueError(f"no set of Protobuf descriptors: {error}") from None
    types: dict[tuple[int, ...], Any] = {}

    def type_at(path: tuple[int, ...]) -> Any:
        if path not in types:
            try:
                found = list(last.message_types_by_name.values())[path[0]]
                for index in path[1:]:
                    found = found.nested_types[index]
            except IndexError:
                raise ValueError(f"the schema has no message type {list(path)}") from None
            types[path] = message_factory.GetMessageClass(found)
        return types[path]

    return type_at


def _with_numbers(tree: Any, descriptor: Any) -> Any:
    """Return a message with 64-bit integers as numbers; the library writes them as text, as JSON does."""
    if not isinstance(tree, dict) or descriptor.full_name.startswith("google.protobuf."):
        return tree
    for field in descriptor.fields:
        if field.name in tree:
            tree[field.name] = _field(tree[field.name], field)
    return tree


def _field(value: Any, field: Any) -> Any:
    inside = field.message_type
    if inside is not None and inside.GetOptions().map_entry:
        of_value = inside.fields_by_name["value"]
        return {name: _field(one, of_value) for name, one in value.items()}
    if isinstance(value, list):
        return [_one(one, field) for one in value]
    return _one(value, field)


def _one(value: Any, field: Any) -> Any:
    if field.message_type is not None:
        return _with_numbers(value, field.message_type)
    is_long = field.cpp_type in (field.CPPTYPE_INT64, field.CPPTYPE_UINT64)
    return int(value) if is_long and isinstance(value, str) else value
