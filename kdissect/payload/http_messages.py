"""One HTTP/1 message out of captured bytes, by the parser of the standard library (`http.client`).

In come the bytes of one direction from the begin of a message on, out goes the message with the number of its
bytes, or None for bytes that are no whole message. Bodies are bounded: more than MOST_BODY, also when they
are decompressed, makes the message None.
"""

import io
import zlib
from typing import Any, NamedTuple, cast

MOST_BODY = 4 << 20
MOST_LINE = 8 << 10  # of a request line
METHODS = (b"GET ", b"POST ", b"PUT ", b"DELETE ", b"HEAD ")
STATUS = b"HTTP/1."
GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS  # zlib finds out which of the two
BODY_HEADERS = ("content-length", "transfer-encoding")


class HttpRequest(NamedTuple):
    """A request; `size` counts its bytes on the wire."""

    method: str
    target: str
    body: bytes
    size: int


class HttpReply(NamedTuple):
    """A response; `size` counts its bytes on the wire, with those of interim responses before it."""

    status: int
    body: bytes
    size: int


class _CapturedBytes(io.BytesIO):
    """Bytes that stay readable when the parser closes them, and serve as its socket."""

    def close(self) -> None:
        """Do nothing: the position is still needed."""

    def makefile(self, *_arguments: Any) -> "_CapturedBytes":
        """Return the bytes as the file that the parser asks its socket for."""
        return self


def read_request(data: bytes) -> HttpRequest | None:
    """Return the request at the begin of bytes; None if there is no whole one."""
    line, end, _ = data[:MOST_LINE].partition(b"\r\n")
    words = line.decode("latin-1").split(" ")
    if not end or not line.startswith(METHODS) or len(words) != 3:
        return None
    # Headers and body of both kinds of messages are alike, but a request without a length has no body.
    status = b"HTTP/1.1 200 OK\r\n"
    parsed = _parse(status + data[len(line) + len(end) :], "POST", needs_length=True)
    if parsed is None:
        return None
    return HttpRequest(words[0], words[1], parsed.body, parsed.size - len(status) + len(line) + len(end))


def read_reply(data: bytes, method: str) -> HttpReply | None:
    """Return the response to a method at the begin of bytes; None if there is no whole one."""
    return _parse(data, method, needs_length=False) if data.startswith(STATUS) else None


def _parse(data: bytes, method: str, needs_length: bool) -> HttpReply | None:
    # Each start would take 0.01 s for it, and few captures hold HTTP.
    from http.client import HTTPException, HTTPResponse  # noqa: PLC0415

    source = _CapturedBytes(data)
    response = HTTPResponse(cast("Any", source), method=method)
    try:
        response.begin()
        has_body = not needs_length or any(response.headers[name] is not None for name in BODY_HEADERS)
        body = response.read(MOST_BODY + 1) if has_body else b""
        if len(body) > MOST_BODY or (response.length and not response.isclosed()):
            return None
        found = _decompressed(body, response.headers.get("content-encoding", ""))
    except (HTTPException, ValueError, OSError, zlib.error, AttributeError):
        return None
    return None if found is None else HttpReply(response.status, found, source.tell())


def _decompressed(body: bytes, encoding: str) -> bytes | None:
    if encoding.strip().lower() not in ("gzip", "x-gzip", "deflate"):
        return body
    stream = zlib.decompressobj(GZIP_OR_ZLIB)
    found = stream.decompress(body, MOST_BODY + 1)
    return found if stream.eof and len(found) <= MOST_BODY else None
