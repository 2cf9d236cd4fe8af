"""The channel between the driver of a replay and a worker: messages over TLS, for those who know a token.

The driver makes a certificate for each run. A worker gets an `Invitation` with it and with a token. It trusts
this certificate alone, so nobody else can answer in the driver's place, and it sends the token before
anything else. The driver closes a connection without the right token, and has told it nothing by then. So
credentials of a target travel encrypted, and only to workers of the run.

A message has a kind, values (JSON) and bytes. A frame is the length of the first part and of the second
(4 bytes each), the kind and the values as a JSON list, and the bytes.
"""

import datetime as dt
import hmac
import json
import os
import secrets
import select
import socket
import ssl
import struct
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

LENGTHS = struct.Struct(">II")
TOKEN_BYTES = 32
MOST_VALUES, MOST_BYTES = 1 << 20, 1 << 28  # bytes of the two parts of a frame
READ_BYTES = 1 << 16
HANDSHAKE_S = 10.0  # for TLS and the token
SEND_S = 15.0  # after which the other end counts as gone
VALID = dt.timedelta(days=30)  # also before now, for clocks that differ
NAME = "kdissect replay"


class ChannelClosed(Exception):
    """The other end is gone; the message says why."""


class ChannelMessage(NamedTuple):
    """One message. `received_ns` is when it came, on the clock of the run."""

    kind: str
    values: dict[str, Any]
    body: bytes
    received_ns: int


@dataclass(frozen=True, slots=True)
class Invitation:
    """Facts that a worker needs to reach the driver."""

    host: str
    port: int
    certificate: str  # PEM
    token: bytes = field(repr=False)


class Channel:
    """One end of a connection. Any thread may send; one thread receives."""

    def __init__(self, connection: ssl.SSLSocket) -> None:
        self._connection = connection
        self._lock = threading.Lock()  # OpenSSL takes one caller at a time
        self._buffer = bytearray()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, kind: str, body: bytes = b"", **values: Any) -> None:
        """Send a message. Raise ChannelClosed."""
        head = json.dumps([kind, values]).encode()
        frame = LENGTHS.pack(len(head), len(body)) + head + body
        try:
            with self._lock:
                self._connection.settimeout(SEND_S)
                self._connection.sendall(frame)
        except (OSError, ValueError) as error:
            raise ChannelClosed(_reason(error)) from None

    def receive(self, wait_s: float) -> ChannelMessage | None:
        """Return the next message; None if none comes within some time. Raise ChannelClosed."""
        until_s = time.monotonic() + wait_s
        while (message := self._parsed()) is None:
            left_s = until_s - time.monotonic()
            if left_s <= 0:
                return None
            self._read(left_s)
        return message

    def receive_exactly(self, size: int, wait_s: float) -> bytes:
        """Return so many bytes that are no message. Raise ChannelClosed if they do not come in time."""
        until_s = time.monotonic() + wait_s
        while len(self._buffer) < size:
            if time.monotonic() >= until_s:
                raise ChannelClosed("it was silent")
            self._read(max(until_s - time.monotonic(), 0.0))
        data = bytes(self._buffer[:size])
        del self._buffer[:size]
        return data

    def send_bytes(self, data: bytes) -> None:
        """Send bytes that are no message. Raise ChannelClosed."""
        try:
            with self._lock:
                self._connection.settimeout(SEND_S)
                self._connection.sendall(data)
        except OSError as error:
            raise ChannelClosed(_reason(error)) from None

    def close(self) -> None:
        """Close the connection. A thread that waits for a message of it is woken."""
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()

    def _read(self, wait_s: float) -> None:
        try:
            with self._lock:
                data = self._decrypted()
            if data is None:  # outside of the lock, so that others can send
                select.select([self._connection], [], [], wait_s)
                return
        except (OSError, ValueError) as error:
            raise ChannelClosed(_reason(error)) from None
        if not data:
            raise ChannelClosed("it closed the connection")
        self._buffer += data

    def _decrypted(self) -> bytes | None:
        """Return what has come; empty at the end of the stream, None if nothing has come."""
        self._connection.setblocking(False)
        try:
            return self._connection.recv(READ_BYTES)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return None

    def _parsed(self) -> ChannelMessage | None:
        buffer = self._buffer
        if len(buffer) < LENGTHS.size:
            return None
        head_size, body_size = LENGTHS.unpack_from(buffer)
        if head_size > MOST_VALUES or body_size > MOST_BYTES:
            raise ChannelClosed("it sent what no worker sends")
        body_at = LENGTHS.size + head_size
        if len(buffer) < body_at + body_size:
            return None
        try:
            kind, values = json.loads(buffer[LENGTHS.size : body_at])
        except ValueError:
            raise ChannelClosed("it sent what no worker sends") from None
        body = bytes(buffer[body_at : body_at + body_size])
        del buffer[: body_at + body_size]
        return ChannelMessage(kind, values, body, time.monotonic_ns())


class Listener:
    """The driver's port, where workers with the token are let in."""

    def __init__(self, host: str, address: str = "") -> None:
        """Listen at an address of this machine (default: `host`), which workers reach as `host`."""
        certificate, key = _make_certificate()
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.minimum_version = ssl.TLSVersion.TLSv1_3
        with nameless_file(certificate + key) as path:
            self._context.load_cert_chain(path)
        self._socket = socket.create_server((address or host, 0), family=_family(address or host))
        port = self._socket.getsockname()[1]
        self.invitation = Invitation(host, port, certificate.decode(), secrets.token_bytes(TOKEN_BYTES))

    def accept(self) -> socket.socket:
        """Return the next connection, of anybody. Raise OSError when the listener is closed."""
        connection, _ = self._socket.accept()
        return connection

    def admit(self, connection: socket.socket) -> Channel:
        """Return the channel of a connection. Raise ChannelClosed for one without the token."""
        connection.settimeout(HANDSHAKE_S)
        try:
            channel = Channel(self._context.wrap_socket(connection, server_side=True))
        except (OSError, ValueError) as error:
            connection.close()
            raise ChannelClosed(_reason(error)) from None
        try:
            token = channel.receive_exactly(TOKEN_BYTES, HANDSHAKE_S)
        except ChannelClosed:
            channel.close()
            raise
        if not hmac.compare_digest(token, self.invitation.token):
            channel.close()
            raise ChannelClosed("it has another token")
        return channel

    def close(self) -> None:
        """Refuse all further connections."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._socket.close()


def connect(invitation: Invitation) -> Channel:
    """Return a channel to the driver. Raise ChannelClosed if there is no way to it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # the certificate is that of the run, and the only one that is trusted
    context.load_verify_locations(cadata=invitation.certificate)
    try:
        plain = socket.create_connection((invitation.host, invitation.port), HANDSHAKE_S)
        channel = Channel(context.wrap_socket(plain))
    except OSError as error:
        raise ChannelClosed(_reason(error)) from None
    channel.send_bytes(invitation.token)
    return channel


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _make_certificate() -> tuple[bytes, bytes]:
    """Return a certificate of this run and its key, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, NAME)])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - VALID)
        .not_valid_after(now + VALID)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return certificate.public_bytes(serialization.Encoding.PEM), key.private_bytes(*form)


@contextmanager
def nameless_file(content: bytes) -> Iterator[str]:
    """Return a path under which this process reads some bytes; the file has no name on the disk."""
    with tempfile.TemporaryFile(prefix="kdissect-", buffering=0) as file:
        file.write(content)
        os.lseek(file.fileno(), 0, os.SEEK_SET)
        yield f"/dev/fd/{file.fileno()}"


def _reason(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "it was silent"
    if isinstance(error, ssl.SSLError):
        return f"TLS: {error.reason or error}"
    return str(getattr(error, "strerror", None) or error).lower() or "the connection was closed"
