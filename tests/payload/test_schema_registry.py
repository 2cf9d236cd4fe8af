"""Schemas over HTTP: what real serializers register is what is read, and what a registry may not do."""

import json
import pickle
from base64 import b64encode
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, ClassVar

import pytest

from kdissect.errors import UserError
from kdissect.payload.payload_decoder import Payload, PayloadDecoder
from kdissect.payload.schema_registry import FAILURES, SchemaRegistry
from kdissect.payload.schema_store import SchemaKind, SchemaStore
from tests.payload.test_protobuf_reader import FILES, message

AVRO = {"type": "record", "name": "User", "fields": [{"name": "id", "type": "long"}]}
ANSWERS: dict[str, Any] = {
    "/schemas/ids/17": {"schema": json.dumps(AVRO)},
    "/schemas/ids/18": {"schemaType": "PROTOBUF", "schema": "syntax = …"},
    "/schemas/ids/18?format=serialized": {
        "schemaType": "PROTOBUF", "schema": b64encode(FILES.file[0].SerializeToString()).decode(),
    },
    "/schemas/ids/19": {"schemaType": "JSON", "schema": "{}"},
    "/schemas/ids/20": {"schema": '"a.Id"', "references": [{"name": "a.Id", "subject": "ids", "version": 2}]},
    "/subjects/ids/versions/2": {"schema": json.dumps({"type": "fixed", "name": "a.Id", "size": 2})},
    "/subjects/users-value/versions/latest": {"schema": json.dumps(AVRO)},
    "/schemas/ids/21": [],
    "/schemas/ids/22": {"schemaType": "THRIFT", "schema": ""},
    "/schemas/ids/23": {
        "schema": '"x"', "references": [{"name": "x", "subject": "circle", "version": 1}],
    },
    "/subjects/circle/versions/1": {
        "schema": '"x"', "references": [{"name": "x", "subject": "circle", "version": 1}],
    },
}  # fmt: skip


class Registry(BaseHTTPRequestHandler):
    asked: ClassVar[list[tuple[str, str | None]]] = []

    def do_GET(self) -> None:
        self.asked.append((self.path, self.headers.get("Authorization")))
        status = 500 if self.path == "/schemas/ids/500" else 200 if self.path in ANSWERS else 404
        if self.path == "/schemas/ids/443":
            self.wfile.write(bytes([21, 3, 3, 0, 2, 2, 70]))  # an alert of TLS
            return
        if self.path == "/schemas/ids/302":
            self.send_response(302)
            self.send_header("Location", "/schemas/ids/17")
            self.end_headers()
            return
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(ANSWERS.get(self.path, {})).encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    Registry.asked = []
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_a_pickled_registry_asks_for_itself(url: str) -> None:
    store = pickle.loads(pickle.dumps(SchemaStore([SchemaRegistry(url)])))
    assert PayloadDecoder(store).decode(b"\0\0\0\0\x11\x0e", "t") == Payload("avro", {"id": 7}, 17)
    assert [path for path, _ in Registry.asked] == ["/schemas/ids/17"]


def test_all_languages(url: str) -> None:
    decoder = PayloadDecoder(SchemaStore([SchemaRegistry(url)]))
    for number, body, expected in (
        (17, b"\x0e", Payload("avro", {"id": 7}, 17)),
        (18, b"\0" + message("shop.First", a="x").SerializeToString(), Payload("protobuf", {"a": "x"}, 18)),
        (19, b'{"a": 1}', Payload("json", {"a": 1}, 19)),
        (20, b"\1\2", Payload("avro", "AQI=", 20)),
    ):
        assert decoder.decode(b"\0" + number.to_bytes(4) + body, "t") == expected
    assert decoder.decode(b"\x0e", "users") == Payload("avro", {"id": 7})
    unknown = decoder.decode(b"\0\0\0\0\x63body", "t")
    assert unknown is not None
    assert unknown.fault == "unknown schema id 99"
    before = len(Registry.asked)
    decoder.decode(b"\0\0\0\0\x11\x0e", "t")
    assert len(Registry.asked) == before  # each schema is asked for once


def test_wrong_answers_are_values(url: str) -> None:
    registry = SchemaRegistry(url)
    for number, reason in ((21, "something else than a schema"), (22, "THRIFT"), (23, "too many schemas")):
        with pytest.raises(ValueError, match=reason):
            registry.by_id(number)
    assert registry.by_id(1 << 40) is None
    with pytest.raises(ValueError, match="answers 302"):
        registry.by_id(302)
    with pytest.raises(ValueError, match="cannot be reached"):
        registry.by_id(443)


def test_a_registry_that_fails_is_left_alone(url: str) -> None:
    registry = SchemaRegistry(url)
    for _ in range(FAILURES):
        with pytest.raises(ValueError, match="answers 500"):
            registry.by_id(500)
    with pytest.raises(ValueError, match="does not answer"):
        registry.by_id(17)
    assert len(Registry.asked) == FAILURES


def test_credentials_go_over_https_only(url: str) -> None:
    with pytest.raises(UserError, match="over https only"):
        SchemaRegistry(url, "user:password")
    for wrong in ("registry", "ftp://registry", "http://", "http://[::1", "http://registry:80811"):
        with pytest.raises(UserError, match="is not the URL of a schema registry"):
            SchemaRegistry(wrong)
    assert SchemaRegistry(url).by_id(17).kind is SchemaKind.AVRO  # type: ignore[union-attr]
    assert {credentials for _, credentials in Registry.asked} == {None}
