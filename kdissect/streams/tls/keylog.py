"""Key logs.

The secrets of TLS sessions, written down by a client or a server in the format of NSS (SSLKEYLOGFILE).

A line is a label, the client random of the session and a secret, both in hexadecimal (RFC 9850). Agents in a
JVM, which do not see that random, write `RSA Session-ID:… Master-Key:…` for TLS 1.2 instead, whatever the key
exchange was. Key logs come as files and within pcapng captures, as decryption-secrets blocks. Lines that say
nothing of use are counted, never shown: a key log is a secret, so nothing here puts any part of it into a
message, and a `KeyLog` does not show its contents either.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from kdissect.capture.formats.file_types import InputError
from kdissect.capture.formats.pcapng import SecretsBlock
from kdissect.capture.inputs import CaptureFile
from kdissect.capture.storage import open_storage

MASTER_SECRET = "CLIENT_RANDOM"  # noqa: S105 - the label of TLS 1.2 and before
EARLY_TRAFFIC = "CLIENT_EARLY_TRAFFIC_SECRET"
CLIENT_HANDSHAKE = "CLIENT_HANDSHAKE_TRAFFIC_SECRET"
SERVER_HANDSHAKE = "SERVER_HANDSHAKE_TRAFFIC_SECRET"
CLIENT_TRAFFIC = "CLIENT_TRAFFIC_SECRET_0"
SERVER_TRAFFIC = "SERVER_TRAFFIC_SECRET_0"
SECRET_BYTES = {  # how long each may be: hash lengths, or the one length of a master secret
    MASTER_SECRET: (48,),
    EARLY_TRAFFIC: (32, 48),
    CLIENT_HANDSHAKE: (32, 48),
    SERVER_HANDSHAKE: (32, 48),
    CLIENT_TRAFFIC: (32, 48),
    SERVER_TRAFFIC: (32, 48),
}
BY_SESSION = re.compile(rb"RSA Session-ID:((?:[0-9a-fA-F]{2}){1,32}) Master-Key:([0-9a-fA-F]{96})")
RANDOM_BYTES = 32
MOST_BYTES = 64 << 20  # of one key log: some 60,000 sessions of TLS 1.3
TLS_KEY_LOG = 0x544C534B  # the kind of a decryption-secrets block (draft-ietf-opsawg-pcapng, section 4.7)

Secrets = Mapping[str, bytes]  # label -> secret, of one session
NO_SECRETS: Secrets = {}


class KeyLog:
    """Secrets of sessions by client random or session id.

    It can be sent to workers, and shows only how much it knows.
    """

    __slots__ = ("_masters", "_sessions")

    def __init__(
        self, sessions: Mapping[bytes, Secrets] | None = None, masters: Mapping[bytes, bytes] | None = None
    ) -> None:
        self._sessions, self._masters = dict(sessions or {}), dict(masters or {})

    def __len__(self) -> int:
        return len(self._sessions) + len(self._masters)

    def __repr__(self) -> str:
        return f"<secrets of {len(self)} TLS sessions>"

    def contents(self) -> tuple[Mapping[bytes, Secrets], Mapping[bytes, bytes]]:
        """Return the arguments that make an equal key log."""
        return self._sessions, self._masters

    def of(self, client_random: bytes) -> Secrets:
        """Return the secrets of the session with this client random; none when it is not known."""
        return self._sessions.get(client_random, NO_SECRETS)

    def master_of(self, session_id: bytes) -> bytes | None:
        """Return the master secret of the session with this id, which its server chose."""
        return self._masters.get(session_id)


NO_KEYS = KeyLog()


def parse(texts: Iterable[bytes]) -> KeyLog:
    """Read key logs; of two secrets for the same thing the first counts. Lines of no use are passed over."""
    sessions: dict[bytes, dict[str, bytes]] = {}
    masters: dict[bytes, bytes] = {}
    for text in texts:
        for line in text.splitlines():
            if (found := _secret_in(line)) is not None:
                label, random, secret = found
                sessions.setdefault(random, {}).setdefault(label, secret)
            elif (of_session := BY_SESSION.fullmatch(line.strip())) is not None:
                identity, secret = (bytes.fromhex(part.decode("ascii")) for part in of_session.groups())
                masters.setdefault(identity, secret)
    return KeyLog(sessions, masters)


def _secret_in(line: bytes) -> tuple[str, bytes, bytes] | None:
    words = line.split()
    if len(words) != 3:
        return None
    try:
        label, random, secret = words[0].decode("ascii"), *map(_bytes_of, words[1:])
    except ValueError:
        return None
    if len(random) != RANDOM_BYTES or len(secret) not in SECRET_BYTES.get(label, ()):
        return None
    return label, random, secret


def _bytes_of(word: bytes) -> bytes:
    return bytes.fromhex(word.decode("ascii"))


class SecretsHolder(Protocol):
    """A capture with secrets in it: the index of a file, or a capture that is still being written."""

    @property
    def file(self) -> CaptureFile:
        """Return the file where it can be read."""

    @property
    def secrets(self) -> Sequence[SecretsBlock]:
        """Return the place of its secrets."""


def keys_for(path: str | None, captures: Sequence[SecretsHolder]) -> KeyLog:
    """Read the key log at `path`, if one is named, and those inside the captures.

    Raise InputError for a file that cannot be read or holds no secret of TLS.
    """
    texts = [_read(path)] if path is not None else []
    if texts and not len(parse(texts)):
        raise InputError(
            f"{path} is no key log of TLS: no line of it is a label, a client random and a secret"
        )
    texts += [_inside(file, block.offset, block.length) for file in captures for block in file.secrets
              if block.kind == TLS_KEY_LOG]  # fmt: skip
    return parse(texts) if texts else NO_KEYS


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - may be a pipe, as of a shell's <(command)
            text = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise InputError.of(path, error) from None
    if len(text) > MOST_BYTES:
        raise InputError(f"{path} is larger than any key log ({MOST_BYTES >> 20} MiB)")
    return text


def _inside(capture: SecretsHolder, offset: int, length: int) -> bytes:
    try:
        with open_storage(capture.file.path) as source:
            return source.read(min(length, MOST_BYTES), offset)
    except OSError as error:
        raise InputError.of(capture.file.name, error) from None
