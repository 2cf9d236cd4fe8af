"""How a connection begins: ApiVersions, then SASL with the operator's credentials.

Nothing of it comes from the capture.

A handshake is a generator of parts that is sent the answer to each. It returns the lifetime of the SASL
session, and raises `HandshakeFailed` with one sentence. SASL uses SaslAuthenticate (KIP-152), with PLAIN (RFC
4616) or SCRAM (RFC 5802, RFC 7677), and checks the proof of the server. The target's messages are not
trusted.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable, Generator
from functools import lru_cache
from typing import NamedTuple

from kdissect import __version__
from kdissect.errors import UserError
from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.error_codes import ErrorCode, error_name
from kdissect.replay.disposition import Disposition
from kdissect.replay.effects import Answer, Part
from kdissect.replay.rewrite.names import Tree
from kdissect.replay.settings import Credentials
from kdissect.text import truncate

CLIENT_ID = "kdissect-replay"
HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
MECHANISMS = ("PLAIN", *HASHES)
LEAST_ITERATIONS = 4096  # RFC 7677: with fewer a false server could guess the password
MOST_ITERATIONS = 1_000_000  # as librdkafka; half a second of work. Kafka's brokers store at most 16,384
MOST_SALT = 1024  # bytes
MOST_REASON = 200  # characters of the target's own text in a sentence

UNANSWERED = {
    Disposition.TIMED_OUT: "the connection was accepted, but no response came",
    Disposition.CLOSED: "the connection was closed",
    Disposition.FAILED_TO_SEND: "the connection was closed",
}

OTHER_LISTENER = ", as by a listener that wants TLS (--tls) or a certificate of the client (--tls-cert)"

Handshake = Generator[Part, Answer, int]  # returns the lifetime of the session in ms, 0 for no end


class HandshakeFailed(UserError):
    """The target does not accept the replayer, or is not what it claims to be."""


def shake_hands(
    credentials: Credentials | None, learn_versions: Callable[[Tree], None], nonce: Callable[[], str]
) -> Handshake:
    """Ask for versions, then log in. Raise HandshakeFailed if the target refuses."""
    answer = yield Part(
        ApiKey.API_VERSIONS,
        3,
        {"client_software_name": "kdissect", "client_software_version": __version__},
        client_id=CLIENT_ID,
    )
    refused = answer.body.get("error_code", ErrorCode.UNSUPPORTED_VERSION) == ErrorCode.UNSUPPORTED_VERSION
    if refused and answer.frame is not None:  # also if only clients of version 0 could read the response
        answer = yield Part(ApiKey.API_VERSIONS, 0, {}, client_id=CLIENT_ID)
    if not answer.body or answer.body["error_code"]:
        hint = OTHER_LISTENER if answer.bucket is Disposition.CLOSED else ""
        raise HandshakeFailed(f"ApiVersions: {_reason(answer)}{hint}")
    learn_versions(answer.body)
    return (yield from authenticate(credentials, nonce)) if credentials else 0


def authenticate(credentials: Credentials, nonce: Callable[[], str]) -> Handshake:
    """Log in, or again before a session ends (KIP-368). Raise HandshakeFailed if the target refuses."""
    answer = yield Part(ApiKey.SASL_HANDSHAKE, 1, {"mechanism": credentials.mechanism}, client_id=CLIENT_ID)
    body = answer.body
    if body.get("error_code") == ErrorCode.ILLEGAL_SASL_STATE:
        raise HandshakeFailed(
            "this listener of the target has no login: leave out --sasl, or use another port"
        )
    if not body:
        raise HandshakeFailed(f"SASL {credentials.mechanism}: {_reason(answer)}")
    if body["error_code"]:
        offered = _shortened(", ".join(body.get("mechanisms") or ()) or "none")
        raise HandshakeFailed(
            f"SASL {credentials.mechanism}: {_reason(answer)} (the target offers {offered})"
        )
    if credentials.mechanism == "PLAIN":
        body = yield from _exchange(f"\0{credentials.user}\0{credentials.password}".encode(), credentials)
    else:
        body = yield from _scram(credentials, nonce())
    return int(body.get("session_lifetime_ms", 0))


def _exchange(message: bytes, credentials: Credentials) -> Generator[Part, Answer, Tree]:
    """Send one message of a mechanism. Return the body of the response."""
    answer = yield Part(ApiKey.SASL_AUTHENTICATE, 1, {"auth_bytes": message}, client_id=CLIENT_ID)
    if not answer.body or answer.body["error_code"]:
        raise HandshakeFailed(f"SASL {credentials.mechanism} as {credentials.user}: {_reason(answer)}")
    return answer.body


class _Challenge(NamedTuple):
    """The server's first message of SCRAM (RFC 5802, section 5.1)."""

    text: str
    nonce: str
    salt: bytes
    iterations: int


def _challenge(message: bytes, nonce: str) -> _Challenge:
    """Read the server's first message. Raise HandshakeFailed if it is not one, or not for this nonce."""
    try:
        text = message.decode()
        values = dict(part.split("=", 1) for part in text.split(",") if "=" in part)
        salt = base64.b64decode(values["s"], validate=True)
        found = _Challenge(text, values["r"], salt, int(values["i"]))
    except (UnicodeDecodeError, KeyError, ValueError, binascii.Error):
        raise HandshakeFailed("SCRAM: the first message of the target cannot be read") from None
    if "m" in values:
        raise HandshakeFailed("SCRAM: the target wants an extension that nobody has defined")
    if not found.nonce.startswith(nonce) or len(found.nonce) == len(nonce):
        raise HandshakeFailed("SCRAM: the first message of the target is not for this login")
    if not LEAST_ITERATIONS <= found.iterations <= MOST_ITERATIONS:
        raise HandshakeFailed(
            f"SCRAM: the target asks for {found.iterations} iterations; "
            f"{LEAST_ITERATIONS} to {MOST_ITERATIONS} are accepted"
        )
    if not 0 < len(found.salt) <= MOST_SALT:
        raise HandshakeFailed(f"SCRAM: the target sends a salt of {len(found.salt)} bytes")
    return found


@lru_cache(64)
def _salted(digest: str, password: str, salt: bytes, iterations: int) -> bytes:
    """Return the salted password, which is the same for all connections that get the same challenge."""
    return hashlib.pbkdf2_hmac(digest, password.encode(), salt, iterations)


def _scram(credentials: Credentials, nonce: str) -> Generator[Part, Answer, Tree]:
    """Log in with SCRAM (RFC 5802, section 3). Return the body of the last response."""
    digest = HASHES[credentials.mechanism]
    user = credentials.user.replace("=", "=3D").replace(",", "=2C")
    first = f"n={user},r={nonce}"
    body = yield from _exchange(f"n,,{first}".encode(), credentials)
    challenge = _challenge(body["auth_bytes"], nonce)
    salted = _salted(digest, credentials.password, challenge.salt, challenge.iterations)
    client_key = hmac.digest(salted, b"Client Key", digest)
    final = f"c=biws,r={challenge.nonce}"
    proven = f"{first},{challenge.text},{final}".encode()
    signature = hmac.digest(hashlib.new(digest, client_key).digest(), proven, digest)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    body = yield from _exchange(f"{final},p={base64.b64encode(proof).decode()}".encode(), credentials)
    server_key = hmac.digest(salted, b"Server Key", digest)
    expected = b"v=" + base64.b64encode(hmac.digest(server_key, proven, digest))
    if not hmac.compare_digest(body["auth_bytes"].split(b",")[0], expected):
        raise HandshakeFailed("SCRAM: the target does not know the password either")
    return body


def _reason(answer: Answer) -> str:
    """Return why a request of the handshake failed."""
    if not answer.body:
        return UNANSWERED.get(answer.bucket, "a response that cannot be decoded")
    return _shortened(str(answer.body.get("error_message") or error_name(answer.body["error_code"])))


def _shortened(text: str) -> str:
    """Return text of the target, not longer than a sentence may be."""
    return truncate(text, MOST_REASON, "…")
