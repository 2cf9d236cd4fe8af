"""An exchange with its messages, decoded once and only when needed.

In comes an exchange as headers tell it. Filters and writers then share its decoded request and response, and
find the fields with a role in both.
"""

from collections.abc import Iterator
from functools import lru_cache
from struct import Struct

from kdissect.exchanges.exchange import Exchange
from kdissect.exchanges.field_search import Mention, finder
from kdissect.exchanges.kafka07_describe import kafka07_mentions
from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.codec.messages import DecodedMessage, decode_request, decode_response, enveloped_api
from kdissect.protocol.kafka07.message_codec import decode_kafka07_request, decode_kafka07_response
from kdissect.protocol.schema.registry import APIS, request_header_version
from kdissect.streams.request_header import LEAST_OF_A_CLIENT_ID

NO_KEY = -1
_HEADER_START = Struct(">hh4xh")  # API key, its version, length of the client id
CLIENT_ID_AT = _HEADER_START.size


class DecodedExchange:
    """An exchange whose request and response are decoded when they are first read."""

    __slots__ = ("_request", "_response", "exchange")

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange
        self._request: DecodedMessage | None = None
        self._response: DecodedMessage | None = None

    @property
    def request(self) -> DecodedMessage | None:
        """The request; None if it was not captured, or is a raw SASL token."""
        frame = None if self.exchange.is_token else self.exchange.request
        if self._request is None and frame is not None:
            decode = decode_kafka07_request if self.exchange.is_kafka07 else decode_request
            self._request = decode(frame.data)
        return self._request

    @property
    def response(self) -> DecodedMessage | None:
        """The response; None if there is none. Without a request only its header can be decoded."""
        if self.exchange.is_token:
            return None
        frame, key, version = self.exchange.response, self.exchange.api_key, self.exchange.api_version
        if self._response is None and frame is not None and self.exchange.is_kafka07:
            self._response = decode_kafka07_response(frame.data, NO_KEY if key is None else key)
        elif self._response is None and frame is not None:
            self._response = decode_response(frame.data, key, version or 0)
        return self._response

    @property
    def client_id(self) -> str | None:
        """The client id of the request; its first bytes if the capture cut it."""
        frame = None if self.exchange.is_token else self.exchange.request
        if frame is not None and not self.exchange.is_kafka07:
            return header_client_id(frame.data)
        return self.request.header.get("client_id") if self.request else None

    def mentions(self, roles: frozenset[str], responses_only: bool = False) -> Iterator[Mention]:
        """Yield all values of these roles, those of the request first."""
        if self.exchange.is_kafka07:
            yield from kafka07_mentions(None if responses_only else self.request, self.response, roles)
            return
        api = APIS.get(NO_KEY if self.exchange.api_key is None else self.exchange.api_key)
        version = self.exchange.api_version
        if api is None or version is None:
            return
        if version not in api.versions:
            if api.key != ApiKey.API_VERSIONS:
                return
            version = 0  # in which a broker answers that does not know it either; the request cannot be read
        elif not responses_only and finder(api.request, version, roles) and self.request:
            yield from _mentions_of(self.request, finder(api.request, version, roles))
        if self.exchange.response and finder(api.response, version, roles) and self.response:
            response_version = self.response.version
            yield from _mentions_of(
                self.response,
                finder(api.response, version if response_version is None else response_version, roles),
            )
        inside = self._enveloped()
        if inside:
            yield from inside.mentions(roles, responses_only)

    def _enveloped(self) -> "DecodedExchange | None":
        """Return the exchange inside an Envelope (KIP-590); None if this is not one."""
        exchange, request = self.exchange, self.exchange.request
        if exchange.api_key != ApiKey.ENVELOPE or request is None or self.request is None:
            return None
        data = (self.request.body or {}).get("request_data") or b""
        api_inside = enveloped_api(data)
        if api_inside is None:
            return None
        inner = request._replace(data=data)
        response_data = exchange.response and ((self.response and self.response.body) or {}).get(
            "response_data"
        )
        response = (
            exchange.response._replace(data=response_data) if exchange.response and response_data else None
        )
        key, version = api_inside
        return DecodedExchange(
            exchange._replace(api_key=key, api_version=version, request=inner, response=response)
        )


def header_client_id(frame: bytes) -> str | None:
    """Return the client id in the header of a request, without decoding the rest; None if it has none.

    It is as in the tables: the first bytes of one that was cut, if they tell who it is.
    """
    if len(frame) < CLIENT_ID_AT:
        return None
    key, version, size = _HEADER_START.unpack_from(frame)
    text = frame[CLIENT_ID_AT : CLIENT_ID_AT + max(size, 0)]
    if size < 0 or len(text) < min(size, LEAST_OF_A_CLIENT_ID) or not _has_client_id(key, version):
        return None
    return text.decode("utf-8", "surrogateescape")


@lru_cache(maxsize=1024)
def _has_client_id(key: int, version: int) -> bool:
    return key not in APIS or request_header_version(key, version) > 0


def _mentions_of(message: DecodedMessage, find: object) -> Iterator[Mention]:
    if message.body is not None and callable(find):
        yield from find(message.body)
