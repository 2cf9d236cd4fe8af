"""Messages of HTTP out of captured bytes: framed in every way, and what hostile ones do."""

import gzip
import random
import zlib

import pytest

from kdissect.payload import http_messages
from kdissect.payload.http_messages import HttpReply, HttpRequest, read_reply, read_request

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKS = b"Transfer-Encoding: chunked\r\n\r\n3\r\n{}\n\r\n2;x=y\r\n[]\r\n0\r\n\r\n"


def test_requests() -> None:
    get = b"GET /schemas/ids/17?a=b HTTP/1.1\r\nHost: x\r\n\r\n"
    assert read_request(get + get) == HttpRequest("GET", "/schemas/ids/17?a=b", b"", len(get))
    post = b"POST /subjects/a HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc"
    assert read_request(post + get) == HttpRequest("POST", "/subjects/a", b"abc", len(post))
    assert read_request(post[:-1]) is None
    chunked = b"POST /subjects/a HTTP/1.1\r\n" + CHUNKS
    assert read_request(chunked + get) == HttpRequest("POST", "/subjects/a", b"{}\n[]", len(chunked))
    for wrong in (b"", b"GET", b"BREW / HTTP/1.1\r\n\r\n", b"GET /a b HTTP/1.1\r\n\r\n", b"\0\0\0\x11"):
        assert read_request(wrong) is None


def test_replies() -> None:
    whole = OK + b"Content-Length: 2\r\n\r\n{}"
    assert read_reply(whole + b"HTTP/1.1", "GET") == HttpReply(200, b"{}", len(whole))
    assert read_reply(whole[:-1], "GET") is None
    assert read_reply(OK + CHUNKS, "GET") == HttpReply(200, b"{}\n[]", len(OK + CHUNKS))
    interim = b"HTTP/1.1 100 Continue\r\n\r\n"
    assert read_reply(interim + whole, "POST") == HttpReply(200, b"{}", len(interim + whole))
    no_body = b"HTTP/1.1 304 Not Modified\r\n\r\n"
    assert read_reply(no_body + whole, "GET") == HttpReply(304, b"", len(no_body))
    assert read_reply(b"not HTTP", "GET") is None


@pytest.mark.parametrize("compress", [gzip.compress, zlib.compress])
def test_compressed_bodies_are_bounded(compress, monkeypatch: pytest.MonkeyPatch) -> None:
    def reply(body: bytes) -> bytes:
        return OK + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(body) + body

    small = compress(b'{"schema": "x"}')
    found = read_reply(reply(small), "GET")
    assert found is not None
    assert found.body == b'{"schema": "x"}'
    assert read_reply(reply(small[:-3]), "GET") is None
    assert read_reply(reply(b"no gzip at all"), "GET") is None
    monkeypatch.setattr(http_messages, "MOST_BODY", 1000)
    assert read_reply(reply(compress(bytes(1001))), "GET") is None
    assert read_reply(reply(compress(bytes(1000))), "GET") is not None


def test_hostile_bytes_are_no_message() -> None:
    chance = random.Random(7)
    whole = [OK + CHUNKS, b"POST /subjects/a HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc"]
    for _ in range(2000):
        data = bytearray(chance.choice(whole))
        for _ in range(chance.randrange(1, 4)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        for found in (read_request(bytes(data)), read_reply(bytes(data), "GET")):
            assert found is None or 0 < found.size <= len(data)
    for length in (b"-1", b"99999999999999999999", b"x", b"1, 2"):
        read_reply(OK + b"Content-Length: " + length + b"\r\n\r\n{}", "GET")
    assert read_reply(OK + b"Transfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFF\r\n{}", "GET") is None
