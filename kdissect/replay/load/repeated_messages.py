"""Messages that come again: decoded once for all that differ only in their correlation id.

Most messages of a chatty capture are heartbeats, metadata queries and commits that say what the one before
said. In: a frame. Out: what the codec makes of it. It stands for many messages, so nobody changes it. Large
messages are seldom alike, and are decoded each time.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from kdissect.exchanges.filter import errors_of
from kdissect.protocol.codec.messages import DecodedMessage, decode_request, decode_response
from kdissect.protocol.schema.registry import is_known
from kdissect.replay.rewrite.names import Tree

MOST_BYTES = 1024  # of a message that is remembered
MOST_MESSAGES = 1 << 11  # of each direction
CORRELATION = slice(4, 8)  # in a request; a response begins with it
NO_CORRELATION = bytes(4)


class CapturedAnswer(NamedTuple):
    """The body of a captured response, and its first error; 0 for none."""

    body: Tree
    error: int


class RepeatedMessages:
    """The memory of one look at a capture."""

    def __init__(self) -> None:
        remember = lru_cache(MOST_MESSAGES)
        self._request: Callable[[bytes], DecodedMessage] = remember(_request)
        self._response: Callable[[bytes, int, int], CapturedAnswer | None] = remember(_response)

    def request(self, frame: bytes) -> DecodedMessage:
        """Return a decoded request, with any correlation id."""
        if len(frame) > MOST_BYTES:
            return _request(frame)
        return self._request(frame[: CORRELATION.start] + NO_CORRELATION + frame[CORRELATION.stop :])

    def response(self, frame: bytes, key: int, version: int) -> CapturedAnswer | None:
        """Return a decoded response; None if it cannot be decoded."""
        if len(frame) > MOST_BYTES:
            return _response(frame, key, version)
        return self._response(NO_CORRELATION[: len(frame)] + frame[len(NO_CORRELATION) :], key, version)


def _request(frame: bytes) -> DecodedMessage:
    return decode_request(frame, strict=True)


def _response(frame: bytes, key: int, version: int) -> CapturedAnswer | None:
    if not is_known(key, version):
        return None
    decoded = decode_response(frame, key, version, strict=True)
    if decoded.fault is not None or decoded.body is None:
        return None
    return CapturedAnswer(decoded.body, next(errors_of(key, version, decoded.body), 0))
