"""Schemas from a registry, by the interface of Confluent, which Apicurio and others offer too.

    GET /schemas/ids/17                       Avro, JSON Schema
    GET /schemas/ids/17?format=serialized     Protobuf, as a serialized file descriptor
    GET /subjects/orders-value/versions/latest

In come a URL and credentials, out go schemas with those that they refer to. Credentials are sent over HTTPS
only, and redirections are not followed. A response has at most MOST_BYTES and must come within TIMEOUT_S.
After FAILURES failures in a row nothing is asked for any more.
"""

import json
import urllib.error
import urllib.parse
import urllib.request
from base64 import b64decode, b64encode
from http import HTTPStatus
from typing import Any, NoReturn

from kdissect.errors import UserError
from kdissect.payload.schema_store import Schema, SchemaKind

MOST_BYTES = 4 << 20
MOST_REFERENCES = 64
TIMEOUT_S = 10
FAILURES = 3


class _NoRedirection(urllib.request.HTTPRedirectHandler):
    """Another address must not get what was meant for this one."""

    def redirect_request(self, *_arguments: Any, **_named: Any) -> None:
        """Return None: do not go there."""


class SchemaRegistry:
    """The schemas of a registry. It can be pickled: each process then asks the registry for itself."""

    def __init__(self, url: str, credentials: str | None = None) -> None:
        """Raise UserError for a URL that cannot be used; `credentials` are user:password."""
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UserError(f"{url!r} is not the URL of a schema registry; example: https://registry:8081")
        if credentials and parts.scheme != "https":
            raise UserError("credentials for a schema registry are sent over https only")
        self._url = url.rstrip("/")
        self._headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if credentials:
            self._headers["Authorization"] = f"Basic {b64encode(credentials.encode()).decode()}"
        self._failures = 0

    def by_id(self, number: int) -> Schema | None:
        """Return the schema with an id, None if there is none. Raise ValueError with a reason."""
        if number >= 1 << 31:
            return None
        return self._schema(f"/schemas/ids/{number}")

    def by_subject(self, subject: str) -> Schema | None:
        """Return the latest schema of a subject, None if there is none. Raise ValueError with a reason."""
        return self._schema(_version_path(subject, "latest"))

    def _schema(self, path: str) -> Schema | None:
        found = self._get(path)
        if found is None:
            return None
        kind = found.get("schemaType", "AVRO")
        if kind not in SchemaKind.__members__:
            raise ValueError(f"the registry calls its language {kind}")
        if kind == SchemaKind.PROTOBUF:
            return Schema(SchemaKind.PROTOBUF, self._descriptors(path))
        parts = [part["schema"] for part in self._references(found, "")]
        return Schema(SchemaKind(kind), str(found.get("schema", "")), tuple(parts))

    def _references(self, found: dict[str, Any], query: str, depth: int = 0) -> list[dict[str, Any]]:
        """Return the schemas that one refers to, those without references first."""
        parts: list[dict[str, Any]] = []
        for reference in found.get("references") or ():
            if depth > MOST_REFERENCES or len(parts) > MOST_REFERENCES:
                raise ValueError("it refers to too many schemas")
            part = self._get(_version_path(str(reference["subject"]), str(reference["version"])) + query)
            if part is None:
                raise ValueError(f"it refers to {reference['subject']}, which the registry does not have")
            parts += [*self._references(part, query, depth + 1), part | {"name": reference.get("name")}]
        return parts

    def _descriptors(self, path: str) -> bytes:
        """Return a Protobuf schema and those that it refers to as a serialized FileDescriptorSet."""
        query = "?format=serialized"
        found = self._get(path + query)
        if found is None:
            raise ValueError("the registry has it no longer")
        files = [*self._references(found, query), found | {"name": "kdissect.proto"}]
        return b"".join(_file_field(b64decode(file["schema"]), str(file["name"])) for file in files)

    def _get(self, path: str) -> dict[str, Any] | None:
        if self._failures >= FAILURES:
            raise ValueError("the schema registry does not answer")
        # The scheme is http or https: `__init__` refuses others.
        request = urllib.request.Request(self._url + path, headers=self._headers)  # noqa: S310
        try:
            with self._opener().open(request, timeout=TIMEOUT_S) as response:
                data = response.read(MOST_BYTES + 1)
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == HTTPStatus.NOT_FOUND:
                return None
            self._fail(f"the schema registry answers {error.code}")
        except (OSError, ValueError) as error:
            self._fail(f"the schema registry cannot be reached: {getattr(error, 'reason', error)}")
        self._failures = 0
        if len(data) > MOST_BYTES:
            raise ValueError(f"its schema has more than {MOST_BYTES:,} bytes")
        try:
            found = json.loads(data)
        except (ValueError, RecursionError):
            found = None
        if isinstance(found, dict):
            return found
        raise ValueError("the schema registry answers with something else than a schema")

    def _opener(self) -> urllib.request.OpenerDirector:
        return urllib.request.build_opener(_NoRedirection, urllib.request.ProxyHandler({}))

    def _fail(self, reason: str) -> NoReturn:
        self._failures += 1
        raise ValueError(reason)


def _version_path(subject: str, version: str) -> str:
    name, number = (urllib.parse.quote(part, safe="") for part in (subject, version))
    return f"/subjects/{name}/versions/{number}"


def _file_field(file: bytes, name: str) -> bytes:
    """Return a FileDescriptorProto, renamed, as a field of a FileDescriptorSet (field 1, length-delimited).

    A later value of field 1, its name, replaces an earlier one.
    """
    named = file + b"\x0a" + _varint(len(name.encode())) + name.encode()
    return b"\x0a" + _varint(len(named)) + named


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])
