"""Schemas that clients and a registry exchanged in plain HTTP, as far as the capture has it.

In come requests and responses, out go schemas by id and GUID (`registry_schemas`). It reads:

    GET  …/schemas/ids/17, …/schemas/guids/…       the schema in the response
    GET  …/subjects/orders-value/versions/3         the schema in the response, with its id
    POST …/subjects/orders-value[/versions]         the schema in the request, its id in the response

A client that asks with Confluent's interface puts an id in front of each value, so subjects are needed for
references only. Text of Protobuf cannot be read, but Confluent's clients for Python and C register serialized
descriptors. Bytes are hostile: MOST_HELD bounds the text of all schemas together.
"""

import json
import re
from base64 import b64decode
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

from kdissect.payload.http_messages import HttpReply, HttpRequest
from kdissect.payload.registry_schemas import SERIALIZED, RegistrySchemas, version_path
from kdissect.payload.schema_store import Schema

MOST_HELD = 32 << 20
MOST_PATHS = 10_000
INTERESTING = re.compile(r"/(?:schemas/(?:ids|guids)|subjects)/")
BY_ID = re.compile(r"/schemas/(?:ids|guids)/[0-9A-Fa-f-]{1,36}$")
BY_VERSION = re.compile(r"/subjects/(?P<subject>[^/]+)/versions/(?P<version>[0-9]{1,9}|latest|-1)$")
BY_SUBJECT = re.compile(r"/subjects/(?P<subject>[^/]+)(?:/versions)?/?$")
PROTOBUF = "PROTOBUF"

Fields = dict[str, Any]


class CapturedRegistry(RegistrySchemas):
    """Captured contents of a registry, which may be added to. It can be pickled."""

    def __init__(self) -> None:
        self._objects: dict[str, Fields] = {}
        self._held = 0

    @property
    def is_empty(self) -> bool:
        """Return whether no schema was found."""
        return not self._objects

    def add(self, request: HttpRequest, reply: HttpReply) -> None:
        """Add the schema of a request and its response, if they have one."""
        target = urlsplit(request.target)
        fields = _json_object(reply.body)
        if reply.status != 200 or fields is None or not INTERESTING.search(target.path):
            return
        if request.method == "GET":
            self._add_response(target.path, fields)
        elif request.method == "POST" and (found := BY_SUBJECT.search(target.path)):
            sent = _json_object(request.body) or {}
            self._add_schema({"subject": unquote(found["subject"]), **sent, **fields})

    @property
    def objects(self) -> Mapping[str, Fields]:
        """The JSON objects of a registry, by the path under which it has them."""
        return self._objects

    def put(self, path: str, fields: Fields) -> None:
        """Add an object of another captured registry."""
        size = len(path) + len(json.dumps(fields))
        if path in self._objects or len(self._objects) >= MOST_PATHS or self._held + size > MOST_HELD:
            return
        self._held += size
        self._objects[path] = fields

    def by_subject(self, _subject: str) -> Schema | None:
        """Return None: clients of a registry put an id in front of each value."""
        return None

    def _get(self, path: str) -> Fields | None:
        return self._objects.get(path)

    def _add_response(self, path: str, fields: Fields) -> None:
        if found := BY_ID.search(path):
            self._put_schema(found[0], fields)
        elif found := BY_VERSION.search(path):
            self._add_schema({"subject": unquote(found["subject"]), **fields})

    def _add_schema(self, fields: Fields) -> None:
        """Put a schema under its id, its GUID, and its subject and version, as far as they are known."""
        for name, path in (("id", "/schemas/ids/{}"), ("guid", "/schemas/guids/{}")):
            if isinstance(fields.get(name), int | str):
                self._put_schema(path.format(fields[name]), fields)
        if isinstance(fields.get("version"), int):
            self._put_schema(version_path(str(fields["subject"]), str(fields["version"])), fields)

    def _put_schema(self, path: str, fields: Fields) -> None:
        if not isinstance(fields.get("schema"), str):
            return
        kept = {name: fields[name] for name in ("schema", "schemaType", "references") if fields.get(name)}
        is_serialized = kept.get("schemaType") == PROTOBUF and _is_base64(kept["schema"])
        if is_serialized:
            self.put(path + SERIALIZED, kept)
        self.put(path, kept)


def _json_object(data: bytes) -> Fields | None:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _is_base64(text: str) -> bool:
    try:
        return bool(b64decode(text, validate=True))
    except ValueError:
        return False
