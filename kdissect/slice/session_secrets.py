"""The secrets of the TLS sessions in a slice, and of no others.

In come a key log and the payload of each copied packet, out go lines of a key log for the sessions whose
hello begins in that payload. A client hello has the random that names the session, a server hello the
session id that some key logs go by (RFC 8446, section 4.1; RFC 5246, section 7.4.1). Each session is named
once.
"""

from collections.abc import Iterator

from kdissect.streams.tls.keylog import RANDOM_BYTES, KeyLog

HANDSHAKE = 22  # type of a TLS record
CLIENT_HELLO, SERVER_HELLO = 1, 2  # types of handshake messages
TYPE_AT = 5  # behind the header of the record
RANDOM_AT = 11  # behind the header of the handshake message and the version
SESSION_AT = RANDOM_AT + RANDOM_BYTES  # length of the session id, then the id
HELLO_BYTES = SESSION_AT + 1 + 32  # all that is read of a hello


class SessionSecrets:
    """The secrets of a key log that were not handed out yet."""

    def __init__(self, keys: KeyLog) -> None:
        self._keys = keys
        self._done: set[bytes] = set()

    def lines_for(self, payload: bytes) -> bytes:
        """Return the lines for the session whose hello begins a payload; nothing for another payload.

        The first HELLO_BYTES of the payload suffice.
        """
        if len(payload) <= SESSION_AT or payload[0] != HANDSHAKE:
            return b""
        lines: Iterator[str]
        if payload[TYPE_AT] == CLIENT_HELLO:
            name = payload[RANDOM_AT:SESSION_AT]
            lines = self._of_random(name)
        elif payload[TYPE_AT] == SERVER_HELLO:
            name = payload[SESSION_AT + 1 : SESSION_AT + 1 + payload[SESSION_AT]]
            lines = self._of_session(name)
        else:
            return b""
        if name in self._done:
            return b""
        text = "".join(f"{line}\n" for line in lines).encode("ascii")
        if text:
            self._done.add(name)
        return text

    def _of_random(self, random: bytes) -> Iterator[str]:
        for label, secret in self._keys.of(random).items():
            yield f"{label} {random.hex()} {secret.hex()}"

    def _of_session(self, identity: bytes) -> Iterator[str]:
        master = self._keys.master_of(identity)
        if master is not None:
            yield f"RSA Session-ID:{identity.hex()} Master-Key:{master.hex()}"
