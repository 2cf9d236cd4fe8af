"""How a link begins: ApiVersions, then SASL with the operator's credentials. Nothing of it comes from the capture.

A handshake is a generator of parts that gives no answer of its own; it raises `HandshakeFailed` with one sentence. SASL goes
by SaslAuthenticate (KIP-152), with PLAIN (RFC 4616) or SCRAM (RFC 5802, RFC 7677); the server's proof is checked.
"""

import base64
import hashlib
import hmac
from collections.abc import Callable, Generator

from kdissect import __version__
from kdissect.errors import UserError
from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.error_codes import ErrorCode, error_name
from kdissect.replay.effects import Answer, Part
from kdissect.replay.rewrite.roles import Tree
from kdissect.replay.settings import Credentials

CLIENT_ID = "kdissect-replay"
HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
MECHANISMS = ("PLAIN", *HASHES)
LEAST_ITERATIONS = 4096  # RFC 7677: fewer would let a false server guess

Handshake = Generator[Part, Answer, int]  # gives the session's lifetime in ms, 0 for no end


class HandshakeFailed(UserError):
    """The target does not want us, or is not what it says."""


def shake_hands(
    credentials: Credentials | None, learn: Callable[[Tree], None], nonce: Callable[[], str]
) -> Handshake:
    """Ask for versions, then say who we are."""
    answer = yield Part(
        ApiKey.API_VERSIONS,
        3,
        {"client_software_name": "kdissect", "client_software_version": __version__},
        client_id=CLIENT_ID,
    )
    body = answer.body
    if body.get("error_code") == ErrorCode.UNSUPPORTED_VERSION:
        answer = yield Part(ApiKey.API_VERSIONS, 0, {}, client_id=CLIENT_ID)
        body = answer.body
    if not body or body["error_code"]:
        raise HandshakeFailed(f"ApiVersions: {_why(answer, body)}")
    learn(body)
    return (yield from authenticate(credentials, nonce)) if credentials else 0


def authenticate(credentials: Credentials, nonce: Callable[[], str]) -> Handshake:
    """Say who we are; also done again before a session ends (KIP-368)."""
    answer = yield Part(ApiKey.SASL_HANDSHAKE, 1, {"mechanism": credentials.mechanism}, client_id=CLIENT_ID)
    body = answer.body
    if not body or body["error_code"]:
        if body and body["error_code"] == ErrorCode.ILLEGAL_SASL_STATE:
            raise HandshakeFailed(
                "this listener of the target takes no login: without --sasl, or another port"
            )
        offered = ", ".join(body.get("mechanisms", ())) or "none"
        raise HandshakeFailed(
            f"SASL {credentials.mechanism}: {_why(answer, body)} (the target offers {offered})"
        )
    if credentials.mechanism == "PLAIN":
        body = yield from _exchange(f"\0{credentials.user}\0{credentials.password}".encode(), credentials)
    else:
        body = yield from _scram(credentials, nonce())
    return int(body.get("session_lifetime_ms", 0))


def _exchange(message: bytes, credentials: Credentials) -> Generator[Part, Answer, Tree]:
    answer = yield Part(ApiKey.SASL_AUTHENTICATE, 1, {"auth_bytes": message}, client_id=CLIENT_ID)
    body = answer.body
    if not body or body["error_code"]:
        raise HandshakeFailed(f"SASL {credentials.mechanism} as {credentials.user}: {_why(answer, body)}")
    return body


def _scram(credentials: Credentials, nonce: str) -> Generator[Part, Answer, Tree]:
    digest = HASHES[credentials.mechanism]
    user = credentials.user.replace("=", "=3D").replace(",", "=2C")
    first = f"n={user},r={nonce}"
    said = (yield from _exchange(f"n,,{first}".encode(), credentials))["auth_bytes"].decode()
    fields = dict(each.split("=", 1) for each in said.split(",") if "=" in each)
    if not fields.get("r", "").startswith(nonce) or not fields.get("i", "").isdecimal():
        raise HandshakeFailed("SCRAM: the target's first message makes no sense")
    if int(fields["i"]) < LEAST_ITERATIONS:
        raise HandshakeFailed(f"SCRAM: the target wants only {fields['i']} iterations")
    salted = hashlib.pbkdf2_hmac(
        digest, credentials.password.encode(), base64.b64decode(fields["s"]), int(fields["i"])
    )
    key = hmac.digest(salted, b"Client Key", digest)
    last = f"c=biws,r={fields['r']}"
    proven = f"{first},{said},{last}".encode()
    signature = hmac.digest(hashlib.new(digest, key).digest(), proven, digest)
    proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
    final = f"{last},p={base64.b64encode(proof).decode()}"
    body = yield from _exchange(final.encode(), credentials)
    server_key = hmac.digest(salted, b"Server Key", digest)
    expected = base64.b64encode(hmac.digest(server_key, proven, digest)).decode()
    if body["auth_bytes"].decode().split(",")[0] != f"v={expected}":
        raise HandshakeFailed("SCRAM: the target does not know the password either")
    return body


def _why(answer: Answer, body: Tree) -> str:
    if not body:
        return answer.bucket if answer.frame is None else "an answer that makes no sense"
    return str(body.get("error_message") or error_name(body["error_code"]))
