"""TLS as OpenSSL speaks it: two ends in memory, what they put on the wire, and the key log they write.

Nothing here knows how records are read; OpenSSL is the truth. Certificates are made once for each run.
"""

import contextlib
import ssl
import tempfile
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from tests.lab import certificates

CLIENT, SERVER = 0, 1
HOST = "broker-1.example"


@cache
def certificate(kind: str = "rsa") -> Path:
    """A self-signed certificate with its key, as one PEM file."""
    return certificates.certificate(Path(tempfile.mkdtemp(prefix="kdissect-tls-")), kind, (HOST,))


@dataclass(frozen=True)
class Kind:
    """Negotiated parameters."""

    version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3
    ciphers: str = ""  # of TLS 1.2, in OpenSSL's names
    key: str = "rsa"
    ask_certificate: bool = False
    send_certificate: bool = False
    trusted: bool = True
    protocols: tuple[str, ...] = ()
    tickets: int = 2


@dataclass
class Ends:
    """Both ends; `flights` is what was on the wire: (side, bytes), in order."""

    kind: Kind
    keylog: Path
    flights: list[tuple[int, bytes]] = field(default_factory=list)
    session: ssl.SSLSession | None = None
    contexts: tuple[ssl.SSLContext, ssl.SSLContext] | None = None
    error: str = ""

    def __post_init__(self) -> None:
        if self.contexts is None:
            self.contexts = _contexts(self.kind, self.keylog)
        self._in = (ssl.MemoryBIO(), ssl.MemoryBIO())
        self._out = (ssl.MemoryBIO(), ssl.MemoryBIO())
        client, server = self.contexts
        self.ends = (
            client.wrap_bio(self._in[0], self._out[0], server_hostname=HOST, session=self.session),
            server.wrap_bio(self._in[1], self._out[1], server_side=True),
        )

    def shake(self) -> "Ends":
        """Go through the handshake; `error` says why it failed, if it did."""
        waiting = {CLIENT, SERVER}
        for _ in range(12):
            for side in (CLIENT, SERVER):
                if side in waiting:
                    try:
                        self.ends[side].do_handshake()
                        waiting.discard(side)
                    except ssl.SSLWantReadError:
                        pass
                    except ssl.SSLError as error:
                        self.error = self.error or str(error.reason)
                        waiting.discard(side)
                self._carry(side)
            if not waiting:
                break
        for side in (CLIENT, SERVER):  # tickets, or an alert that came late
            try:
                self.ends[side].read(1)
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLError as error:
                self.error = self.error or str(error.reason)
            self._carry(side)
        return self

    def say(self, side: int, data: bytes) -> "Ends":
        self.ends[side].write(data)
        self._carry(side)
        got = b""
        while len(got) < len(data):
            got += self.ends[1 - side].read(len(data) - len(got))
        assert got == data
        self._carry(1 - side)
        return self

    def close(self) -> "Ends":
        for side in (CLIENT, SERVER):
            with contextlib.suppress(ssl.SSLError):
                self.ends[side].unwrap()
            self._carry(side)
        return self

    def _carry(self, side: int) -> None:
        data = self._out[side].read()
        if data:
            self.flights.append((side, data))
            self._in[1 - side].write(data)


def _contexts(kind: Kind, keylog: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    client, server = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate(kind.key))
    if kind.trusted:
        client.load_verify_locations(certificate(kind.key))
    for context in (client, server):
        context.minimum_version = context.maximum_version = kind.version
        if kind.ciphers:
            context.set_ciphers(kind.ciphers + ":@SECLEVEL=0")
        if kind.protocols:
            context.set_alpn_protocols(list(kind.protocols))
    server.num_tickets = kind.tickets
    client.keylog_filename = str(keylog)
    if kind.ask_certificate:
        server.verify_mode = ssl.CERT_REQUIRED
        server.load_verify_locations(certificate(kind.key))
    if kind.send_certificate:
        client.load_cert_chain(certificate(kind.key))
    return client, server
