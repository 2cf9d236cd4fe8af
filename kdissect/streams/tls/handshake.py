"""Handshake messages (RFC 8446, section 4.

RFC 5246, section 7.4): put together from records, and what is read of them.

Only what a report says or a key derivation needs is read. A message that is not well-formed gives None; one
longer than any real one is passed over as it comes in, so nothing large is ever kept.
"""

from collections.abc import Iterator
from typing import NamedTuple

CLIENT_HELLO, SERVER_HELLO, NEW_TICKET, ENCRYPTED_EXTENSIONS, CERTIFICATE = 1, 2, 4, 8, 11
CERTIFICATE_REQUEST, FINISHED, KEY_UPDATE = 13, 20, 24
SERVER_NAME, ALPN, ENCRYPT_THEN_MAC, EARLY_DATA, SUPPORTED_VERSIONS, PRE_SHARED_KEY = 0, 16, 22, 42, 43, 41
TLS_1_2, TLS_1_3 = 0x0303, 0x0304
VERSIONS = {0x0300: "SSL 3.0", 0x0301: "TLS 1.0", 0x0302: "TLS 1.1", TLS_1_2: "TLS 1.2", TLS_1_3: "TLS 1.3"}
RETRY_RANDOM = bytes.fromhex("cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c")
"""The random of a server hello that is a hello retry request (RFC 8446, section 4.1.3)."""
MOST_MESSAGE = 1 << 16  # bytes kept of one message; chains of certificates may be longer and are not read
MOST_NAME = 255


class ClientHello(NamedTuple):
    """Offer of a client."""

    random: bytes
    server_name: str | None


class ServerHello(NamedTuple):
    """Choice of a server."""

    random: bytes
    version: int
    suite: int
    retry: bool
    resumes: bool  # TLS 1.3: by a pre-shared key
    mac_last: bool  # encrypt-then-MAC
    protocol: str | None  # ALPN, in the clear in TLS 1.2
    session: bytes


class _Short(Exception):
    """A message ends before what it says it holds."""


class _Cursor:
    """Reads fields off a message; raises _Short where they are not there."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def take(self, size: int) -> bytes:
        if size > self.left:
            raise _Short
        self._at += size
        return self._data[self._at - size : self._at]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def vector(self, size_of_length: int) -> bytes:
        return self.take(self.number(size_of_length))


class Messages:
    """The handshake messages of one direction, put together from the records that hold them."""

    __slots__ = ("_held", "_skip")

    def __init__(self) -> None:
        self._held, self._skip = b"", 0

    def add(self, content: bytes) -> Iterator[tuple[int, bytes | None]]:
        """Return (type, body) of each message that is complete by now.

        No body for one that is too long to be kept.
        """
        passed = min(self._skip, len(content))
        self._skip -= passed
        held = self._held + content[passed:]
        at = 0
        while at + 4 <= len(held):
            kind, size = held[at], int.from_bytes(held[at + 1 : at + 4], "big")
            stop = at + 4 + size
            if size > MOST_MESSAGE:
                self._skip = max(0, stop - len(held))
                yield kind, None
            elif stop > len(held):
                break
            else:
                yield kind, held[at + 4 : stop]
            at = min(stop, len(held))
        self._held = held[at:]

    def forget(self) -> None:
        """A record is missing: what was begun cannot be completed."""
        self._held, self._skip = b"", 0


def read_client_hello(body: bytes) -> ClientHello | None:
    """Read a client hello."""
    try:
        hello = _Cursor(body)
        hello.take(2)
        random = hello.take(32)
        hello.vector(1)
        hello.vector(2)
        hello.vector(1)
        extensions = _extensions(hello)
        return ClientHello(random, _host_name(extensions.get(SERVER_NAME, b"")))
    except _Short:
        return None


def read_server_hello(body: bytes) -> ServerHello | None:
    """Read a server hello or a hello retry request."""
    try:
        hello = _Cursor(body)
        version, random, session = hello.number(2), hello.take(32), hello.vector(1)
        suite = hello.number(2)
        hello.take(1)
        extensions = _extensions(hello)
        if SUPPORTED_VERSIONS in extensions:
            version = _Cursor(extensions[SUPPORTED_VERSIONS]).number(2)
    except _Short:
        return None
    return ServerHello(
        random,
        version,
        suite,
        random == RETRY_RANDOM,
        PRE_SHARED_KEY in extensions,
        ENCRYPT_THEN_MAC in extensions,
        _protocol(extensions.get(ALPN)),
        session,
    )


def protocol_chosen(body: bytes) -> str | None:
    """Read which protocol the encrypted extensions of TLS 1.3 choose (ALPN)."""
    try:
        return _protocol(_extensions(_Cursor(body)).get(ALPN))
    except _Short:
        return None


def version_name(version: int) -> str:
    """Return a version's name, or its number where it has none."""
    return VERSIONS.get(version, f"0x{version:04X}")


def _extensions(message: _Cursor) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    if not message.left:
        return found
    listed = _Cursor(message.vector(2))
    while listed.left:
        kind = listed.number(2)
        found.setdefault(kind, listed.vector(2))
    return found


def _host_name(extension: bytes) -> str | None:
    try:
        names = _Cursor(_Cursor(extension).vector(2))
        while names.left:
            kind, name = names.number(1), names.vector(2)
            if kind == 0 and name:
                return name[:MOST_NAME].decode("utf-8", "replace")
    except _Short:
        pass
    return None


def _protocol(extension: bytes | None) -> str | None:
    try:
        name = _Cursor(_Cursor(extension or b"").vector(2)).vector(1)
    except _Short:
        return None
    return name.decode("utf-8", "replace") or None
