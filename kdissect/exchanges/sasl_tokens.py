"""Raw SASL tokens in words: frames after SaslHandshake 0 that hold a token and nothing of Kafka.

A token of the client and the broker's answer stand in a dump like an exchange, with the mechanism beside them. GSSAPI tokens
may come without any handshake (Kafka 0.9). Tokens are secrets from the first byte to the last: a PLAIN token is the
password itself.
"""

from typing import Any

from kdissect.exchanges.exchange import CapturedFrame
from kdissect.protocol.codec.messages import decode_request
from kdissect.protocol.redact import REDACTED

NAME = "SaslToken"
GSSAPI_TAG = 0x60  # RFC 2743, section 3.1: how the first token begins
WITHOUT_HANDSHAKE = "GSSAPI"  # the only mechanism that needs none


def requested_mechanism(frame: bytes) -> str | None:
    """Give the mechanism that a SaslHandshake request asks for."""
    mechanism: str | None = (decode_request(frame).body or {}).get("mechanism")
    return mechanism


def token_mechanism(frame: bytes) -> str | None:
    """Give the mechanism of a token on a connection without handshake."""
    return WITHOUT_HANDSHAKE if frame[:1] == bytes([GSSAPI_TAG]) else None


def describe_token(frame: CapturedFrame, secrets: bool) -> dict[str, Any]:
    """Give a token as the half of an exchange."""
    body: dict[str, Any] = {"token": frame.data}
    if frame.data and not secrets:
        body |= {"token": None, "_token": REDACTED.value}
    return {"header": {}, "body": body}
