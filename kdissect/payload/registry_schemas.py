"""Schemas out of the responses of a registry with Confluent's interface, wherever the responses come from.

    /schemas/ids/17                       Avro, JSON Schema
    /schemas/ids/17?format=serialized     Protobuf, as a serialized file descriptor
    /schemas/guids/b1a6…                  by GUID
    /subjects/orders-value/versions/latest

In come the JSON objects of these paths, out go schemas with those that they refer to. A subclass gets the
objects: `schema_registry` asks a server, `captured_registry` has what was captured. Responses may be hostile:
whatever is wrong with one is a ValueError with its reason.
"""

import urllib.parse
from abc import ABC, abstractmethod
from base64 import b64decode
from collections.abc import Iterator
from typing import Any, NamedTuple
from uuid import UUID

from kdissect.payload.schema_store import Schema, SchemaKind

MOST_BYTES = 4 << 20  # of one response
MOST_REFERENCES = 64
SERIALIZED = "?format=serialized"


class RegistryFile(NamedTuple):
    """A schema that a registry returned: its text and the name by which others refer to it."""

    text: str
    name: str


class RegistrySchemas(ABC):
    """The schemas of a registry."""

    @property
    def is_empty(self) -> bool:
        """Return whether it is known to have no schema at all."""
        return False

    def by_id(self, number: int) -> Schema | None:
        """Return the schema with an id, None if there is none. Raise ValueError with a reason."""
        if number >= 1 << 31:
            return None
        return self._schema(f"/schemas/ids/{number}")

    def by_guid(self, guid: UUID) -> Schema | None:
        """Return the schema with a GUID, None if there is none. Raise ValueError with a reason."""
        return self._schema(f"/schemas/guids/{guid}")

    def by_subject(self, subject: str) -> Schema | None:
        """Return the latest schema of a subject, None if there is none. Raise ValueError with a reason."""
        return self._schema(version_path(subject, "latest"))

    @abstractmethod
    def _get(self, path: str) -> dict[str, Any] | None:
        """Return the object at a path, None if there is none. Raise ValueError with a reason."""

    def _schema(self, path: str) -> Schema | None:
        found = self._get(path)
        if found is None:
            return None
        kind = found.get("schemaType") or "AVRO"
        if kind not in SchemaKind.__members__:
            raise ValueError(f"the registry calls its language {kind}")
        if kind == SchemaKind.PROTOBUF:
            return Schema(SchemaKind.PROTOBUF, self._descriptors(path))
        parts = [part.text for part in self._references(found, "")]
        return Schema(SchemaKind(kind), str(found.get("schema", "")), tuple(parts))

    def _references(self, found: dict[str, Any], query: str, depth: int = 0) -> list[RegistryFile]:
        """Return the schemas that one refers to, those without references first."""
        parts: list[RegistryFile] = []
        for subject, version, name in _reference_names(found):
            if depth > MOST_REFERENCES or len(parts) > MOST_REFERENCES:
                raise ValueError("it refers to too many schemas")
            part = self._get(version_path(subject, version) + query)
            if part is None:
                raise ValueError(f"it refers to {subject}, which the registry does not have")
            parts += [*self._references(part, query, depth + 1), RegistryFile(_text(part), name)]
        return parts

    def _descriptors(self, path: str) -> bytes:
        """Return a Protobuf schema and those that it refers to as a serialized FileDescriptorSet."""
        found = self._get(path + SERIALIZED)
        if found is None:
            raise ValueError("the registry does not have it as a serialized descriptor")
        files = [*self._references(found, SERIALIZED), RegistryFile(_text(found), "kdissect.proto")]
        return b"".join(_file_field(b64decode(file.text), file.name) for file in files)


def version_path(subject: str, version: str) -> str:
    """Return the path of a version of a subject."""
    name, number = (urllib.parse.quote(part, safe="") for part in (subject, version))
    return f"/subjects/{name}/versions/{number}"


def _reference_names(found: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield subject, version and name of each schema that one refers to."""
    references = found.get("references") or []
    for reference in references if isinstance(references, list) else [None]:
        if not isinstance(reference, dict) or not {"subject", "version"} <= reference.keys():
            raise ValueError("one of its references has no subject and version")
        yield str(reference["subject"]), str(reference["version"]), str(reference.get("name"))


def _text(found: dict[str, Any]) -> str:
    text = found.get("schema")
    if isinstance(text, str):
        return text
    raise ValueError("the registry answers without the text of a schema")


def _file_field(file: bytes, name: str) -> bytes:
    """Return a FileDescriptorProto, renamed, as a field of a FileDescriptorSet (field 1, length-delimited).

    A later value of field 1, its name, replaces an earlier one.
    """
    text = name.encode("utf-8", "replace")
    named = file + b"\x0a" + _varint(len(text)) + text
    return b"\x0a" + _varint(len(named)) + named


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])
