"""Schemas out of captured requests and responses: by id, GUID and reference, within bounds."""

import json
from typing import Any
from uuid import UUID

import pytest

from kdissect.payload import captured_registry
from kdissect.payload.captured_registry import CapturedRegistry
from kdissect.payload.http_messages import HttpReply, HttpRequest
from kdissect.payload.schema_store import SchemaKind
from tests.payload.test_protobuf_reader import FILES, b64_descriptor

AVRO = json.dumps({"type": "record", "name": "User", "fields": [{"name": "id", "type": "long"}]})
GUID = "b1a62bc4-5a33-4b6e-8c6f-1c2f0a7a3a11"


def told(*talk: tuple[str, str, Any, Any], status: int = 200) -> CapturedRegistry:
    """Return the registry of requests (method, target, body) and response bodies."""
    registry = CapturedRegistry()
    for method, target, sent, received in talk:
        request = HttpRequest(method, target, json.dumps(sent).encode(), 0)
        registry.add(request, HttpReply(status, json.dumps(received).encode(), 0))
    return registry


def test_what_clients_ask_for_and_register() -> None:
    registry = told(
        ("GET", "/schemas/ids/17?fetchMaxId=false&subject=a", None, {"schema": AVRO}),
        ("POST", "/subjects/users-value/versions?normalize=false", {"schema": AVRO}, {"id": 18}),
        ("POST", "/api/subjects/users-value", {"schema": AVRO}, {"id": 19, "version": 3, "guid": GUID}),
        ("GET", "/subjects/a%2Fb/versions/latest", None, {"id": 20, "version": 2, "schema": AVRO}),
    )
    for number in (17, 18, 19, 20):
        schema = registry.by_id(number)
        assert schema is not None
        assert (schema.kind, schema.definition) == (SchemaKind.AVRO, AVRO)
    assert registry.by_guid(UUID(GUID)) is not None
    assert registry.by_id(21) is None
    assert registry.by_subject("users-value") is None
    assert "/subjects/a%2Fb/versions/2" in registry.objects
    assert not registry.is_empty


def test_references_and_serialized_protobuf() -> None:
    reference = {"name": "a.Id", "subject": "ids", "version": 2}
    registry = told(
        ("GET", "/subjects/ids/versions/2", None, {"schema": '"long"', "id": 5, "version": 2}),
        ("POST", "/subjects/x", {"schema": '"a.Id"', "references": [reference]}, {"id": 6}),
        ("POST", "/subjects/y", {"schema": '"b"', "references": [reference | {"version": 3}]}, {"id": 7}),
        ("POST", "/subjects/z", {"schema": b64_descriptor(), "schemaType": "PROTOBUF"}, {"id": 8}),
        ("POST", "/subjects/t", {"schema": "syntax = …;", "schemaType": "PROTOBUF"}, {"id": 9}),
    )
    schema = registry.by_id(6)
    assert schema is not None
    assert schema.parts == ('"long"',)
    with pytest.raises(ValueError, match="refers to ids"):
        registry.by_id(7)
    descriptors = registry.by_id(8)
    assert descriptors is not None
    assert FILES.file[0].SerializeToString() in descriptors.definition
    with pytest.raises(ValueError, match="serialized descriptor"):
        registry.by_id(9)


def test_what_tells_no_schema() -> None:
    assert told(("GET", "/schemas/ids/17", None, {"schema": AVRO}), status=404).is_empty
    for method, target, sent, received in (
        ("GET", "/schemas/ids/17", None, []),
        ("GET", "/schemas/ids/17", None, {"schema": 5}),
        ("GET", "/schemas/types", None, {"schema": AVRO}),
        ("POST", "/subjects/x", "text", {"id": 5}),
        ("POST", "/subjects/x", {"schema": AVRO}, {"id": [5]}),
        ("DELETE", "/subjects/x", {"schema": AVRO}, {"id": 5}),
    ):
        assert told((method, target, sent, received)).is_empty
    registry = told(("POST", "/subjects/x", {"schema": '"x"', "references": [5]}, {"id": 5}))
    with pytest.raises(ValueError, match="no subject and version"):
        registry.by_id(5)


def test_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    talk = [("GET", f"/schemas/ids/{number}", None, {"schema": AVRO}) for number in range(20)]
    monkeypatch.setattr(captured_registry, "MOST_PATHS", 5)
    assert len(told(*talk).objects) == 5
    monkeypatch.setattr(captured_registry, "MOST_HELD", 2 * (14 + len(json.dumps({"schema": AVRO}))))
    assert len(told(*talk).objects) == 2
