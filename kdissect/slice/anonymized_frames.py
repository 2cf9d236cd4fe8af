"""Messages without names, secrets and records, in as many bytes, for `slice --anonymize`.

In comes an exchange, out go the bytes that take the place of its frames. A message is decoded, its names get
pseudonyms of the same length, secrets and everything that could not be decoded become zeros, records are
blanked (`blank_records`), and it is encoded again.

Every byte that is written comes from the encoder. If a message does not become its own bytes when it is
encoded unchanged, only the numbers in its header and the pseudonym of its client id are written, and BLANK
behind them. A frame that the capture cut is filled up with zeros to be decoded, and cut again.
"""

from functools import cache
from typing import NamedTuple

from kdissect.exchanges.anonymize_messages import AnonymizedExchange, fill_redacted
from kdissect.exchanges.decoded import DecodedExchange
from kdissect.exchanges.exchange import CapturedFrame
from kdissect.protocol.codec.messages import (
    UNKNOWN_TAGS,
    CodecError,
    DecodedMessage,
    decode_start,
    encode,
)
from kdissect.protocol.redact import REDACTED, has_secrets_at, redact
from kdissect.protocol.schema.definition import Field, Message
from kdissect.protocol.schema.registry import (
    APIS,
    MESSAGES,
    request_header_version,
    response_header_version,
)
from kdissect.protocol.visitor import Leaf, Tree, Visit, Visitor, compile_visit
from kdissect.slice.blank_records import BLANK, RecordBlanker
from kdissect.slice.same_length_names import SameLengthPseudonyms

MOST_FILLED = 16 << 20  # bytes of a cut frame that are filled up
NUMBERS = {"request": 8, "response": 4}  # bytes of a header that hold no name
GSSAPI_TAG = 0x60  # with which a first token of GSSAPI is recognised (RFC 2743, section 3.1)


class FrameBytes(NamedTuple):
    """The bytes of both frames of an exchange; None where there is no frame."""

    request: bytes | None
    response: bytes | None


class FrameAnonymizer:
    """Anonymizes the frames of exchanges; `blanked` counts those of which only the header is left."""

    def __init__(self, pseudonyms: SameLengthPseudonyms) -> None:
        self.pseudonyms = pseudonyms
        self.records = RecordBlanker(pseudonyms)
        self.blanked = 0

    def frames(self, decoded: DecodedExchange) -> FrameBytes:
        """Return what takes the place of the frames of an exchange, each as long as what was captured."""
        exchange = decoded.exchange
        if exchange.is_token or exchange.is_kafka07:
            blank = _token if exchange.is_token else _numbers_only
            return FrameBytes(
                *(frame and blank(frame.data) for frame in (exchange.request, exchange.response))
            )
        filled = DecodedExchange(
            exchange._replace(request=_filled(exchange.request), response=_filled(exchange.response))
        )
        anonymized = AnonymizedExchange(filled, self.pseudonyms, keep_lengths=True)
        return FrameBytes(
            exchange.request and self._frame(exchange.request, filled, anonymized, "request"),
            exchange.response and self._frame(exchange.response, filled, anonymized, "response"),
        )

    def _frame(
        self, frame: CapturedFrame, filled: DecodedExchange, anonymized: AnonymizedExchange, half: str
    ) -> bytes:
        try:
            before = _encoded(getattr(filled, half), filled, half, None)
            after = _encoded(
                self._header(getattr(filled, half)), filled, half, self._body(filled, anonymized, half)
            )
        except (CodecError, ValueError, TypeError, KeyError, AttributeError):
            before = after = b""
        whole: CapturedFrame = getattr(filled.exchange, half)
        if before and whole.data.startswith(before) and len(before) == len(after):
            return after.ljust(len(frame.data), BLANK)[: len(frame.data)]
        self.blanked += 1
        return self._header_only(frame.data, half)

    def _header(self, decoded: DecodedMessage) -> DecodedMessage:
        header = dict(decoded.header)
        if header.get("client_id"):
            header["client_id"] = self.pseudonyms.name("client", header["client_id"])
        if UNKNOWN_TAGS in header:
            header[UNKNOWN_TAGS] = [(tag, bytes(len(raw))) for tag, raw in header[UNKNOWN_TAGS]]
        return DecodedMessage(header, decoded.body, decoded.version, decoded.fault)

    def _body(self, filled: DecodedExchange, anonymized: AnonymizedExchange, half: str) -> Tree:
        original: DecodedMessage = getattr(filled, half)
        replaced: DecodedMessage = getattr(anonymized, half)
        if original.body is None or original.version is None or replaced.body is None:
            raise ValueError("no body")
        api = APIS[filled.exchange.api_key or 0]
        message: Message = getattr(api, half)
        body: Tree = fill_redacted(original.body, replaced.body)
        if has_secrets_at(message, original.version):
            body = _without_secrets(original.body, body, redact(message, original.version, original.body))
        visit = _records_visit(message, original.version)
        return visit(body, self.records) if visit else body

    def _header_only(self, data: bytes, half: str) -> bytes:
        numbers = data[: NUMBERS[half]]
        if half == "request":
            client_id = decode_start(MESSAGES["RequestHeader"], 1, data).value.get("client_id")
            if client_id:
                raw = (self.pseudonyms.name("client", client_id) or "").encode("utf-8", "surrogateescape")
                numbers += data[len(numbers) : len(numbers) + 2] + raw
        return numbers.ljust(len(data), BLANK)[: len(data)]


def _filled(frame: CapturedFrame | None) -> CapturedFrame | None:
    if frame is None or frame.size <= len(frame.data):
        return frame
    missing = min(frame.size - len(frame.data), MOST_FILLED)
    return frame._replace(data=frame.data + bytes(missing))


def _encoded(decoded: DecodedMessage, exchange: DecodedExchange, half: str, body: Tree | None) -> bytes:
    """Return a message encoded, with `body` in place of its own. Raise what encoding does."""
    key, version = exchange.exchange.api_key, exchange.exchange.api_version
    if key is None or version is None or decoded.version is None or decoded.body is None:
        raise ValueError("no body")
    version_of = request_header_version if half == "request" else response_header_version
    header = MESSAGES["RequestHeader" if half == "request" else "ResponseHeader"]
    message: Message = getattr(APIS[key], half)
    front = encode(header, version_of(key, version), decoded.header)
    return front + encode(message, decoded.version, decoded.body if body is None else body)


def _without_secrets(original: Tree, body: Tree, redacted: Tree) -> Tree:
    """Return a body with zeros wherever `redacted`, made from the original, has REDACTED."""
    if redacted is original:
        return body
    return {name: _blanked(original[name], value, redacted.get(name)) for name, value in body.items()}


def _blanked(original: object, value: object, redacted: object) -> object:
    if redacted is REDACTED:
        return fill_redacted(original, REDACTED)
    if isinstance(original, dict) and isinstance(value, dict) and isinstance(redacted, dict):
        return _without_secrets(original, value, redacted)
    if isinstance(original, list) and isinstance(value, list) and isinstance(redacted, list):
        return [_blanked(*parts) for parts in zip(original, value, redacted, strict=True)]
    if isinstance(original, tuple) and isinstance(value, tuple) and isinstance(redacted, tuple):
        return tuple(_blanked(*parts) for parts in zip(original, value, redacted, strict=True))
    return value


def _token(data: bytes) -> bytes:
    keeps = data[:1] if data[:1] == bytes([GSSAPI_TAG]) else b""
    return keeps.ljust(len(data), BLANK)


def _numbers_only(data: bytes) -> bytes:
    return data[:2].ljust(len(data), BLANK)


def _records_leaf(_message: Message, field: Field, _version: int) -> Leaf[RecordBlanker] | None:
    if field.type != "records":
        return None
    return lambda value, _struct, blanker: blanker.blank(value)


@cache
def _records_visit(message: Message, version: int) -> Visit[RecordBlanker] | None:
    return compile_visit(Visitor(_records_leaf), message, version)
