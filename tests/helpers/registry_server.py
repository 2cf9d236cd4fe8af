"""A small schema registry in this process: what serializers of Confluent need of it.

Its responses are what a real one sends: every second one compressed and in chunks.
"""

import gzip
import json
import re
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from types import TracebackType
from typing import Any, Self
from urllib.parse import unquote, urlsplit

VERSION = re.compile(r"/subjects/([^/]+)/versions/([0-9]+|latest)$")
SUBJECT = re.compile(r"/subjects/([^/]+)(/versions)?$")
BY_ID = re.compile(r"/schemas/ids/([0-9]+)$")
BY_GUID = re.compile(r"/schemas/guids/([0-9a-f-]+)$")
FIRST_ID = 17


class RegistryServer:
    """A context manager; `url` and `port` tell where it is, `schemas` what was registered."""

    def __init__(self) -> None:
        self.schemas: list[dict[str, Any]] = []
        self.requests: list[str] = []
        self._lock = Lock()

    def __enter__(self) -> Self:
        owner = self

        class Handler(_Handler):
            registry = owner

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_port
        self.url = f"http://127.0.0.1:{self.port}"
        Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def get(self, path: str) -> dict[str, Any] | None:
        """Return the response to a GET, None for what there is not."""
        if found := BY_ID.search(path):
            wanted = [one for one in self.schemas if one["id"] == int(found[1])]
        elif found := BY_GUID.search(path):
            wanted = [one for one in self.schemas if one["guid"] == found[1]]
        elif found := VERSION.search(path):
            of_subject = [one for one in self.schemas if one["subject"] == unquote(found[1])]
            wanted = (
                of_subject[-1:] if found[2] == "latest" else of_subject[int(found[2]) - 1 : int(found[2])]
            )
        else:
            return None
        return wanted[0] if wanted else None

    def register(self, subject: str, sent: dict[str, Any]) -> dict[str, Any]:
        """Return a schema with its numbers, new ones if it was not known."""
        kept = {name: sent[name] for name in ("schema", "schemaType", "references") if sent.get(name)}
        with self._lock:
            known = [one for one in self.schemas if one["subject"] == subject]
            for one in known:
                if one["schema"] == kept["schema"]:
                    return one
            number = FIRST_ID + len(self.schemas)
            guid = str(uuid.uuid5(uuid.NAMESPACE_URL, f"{subject} {number}"))
            numbers = {"subject": subject, "version": len(known) + 1, "id": number, "guid": guid}
            self.schemas.append({**kept, **numbers})
            return self.schemas[-1]


class _Handler(BaseHTTPRequestHandler):
    registry: RegistryServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer(self.registry.get(unquote_path(self.path)))

    def do_POST(self) -> None:
        sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        found = SUBJECT.search(urlsplit(self.path).path)
        self._answer(self.registry.register(unquote(found[1]), sent) if found else None)

    def log_message(self, *_: object) -> None:
        pass

    def _answer(self, found: dict[str, Any] | None) -> None:
        self.registry.requests.append(f"{self.command} {self.path}")
        fields = found if found is not None else {"error_code": 40403, "message": "not found"}
        body = json.dumps(fields).encode()
        self.send_response(200 if found is not None else 404)
        self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        if len(self.registry.requests) % 2 and "gzip" in self.headers.get("Accept-Encoding", ""):
            self.send_header("Content-Encoding", "gzip")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            data = gzip.compress(body)
            half = len(data) // 2
            for part in (data[:half], data[half:], b""):
                self.wfile.write(b"%x\r\n%b\r\n" % (len(part), part))
            return
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def unquote_path(path: str) -> str:
    """Return the path of a target, without its query."""
    return urlsplit(path).path
