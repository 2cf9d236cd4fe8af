"""An exchange with its messages decoded, once, for all who ask: filters and writers."""

from collections.abc import Iterator

from kdissect.exchanges.exchange import Exchange
from kdissect.exchanges.field_search import Mention, finder
from kdissect.exchanges.kafka07_describe import kafka07_mentions
from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.codec.messages import DecodedMessage, decode_request, decode_response, enveloped_api
from kdissect.protocol.kafka07.message_codec import decode_old_request, decode_old_response
from kdissect.protocol.schema.registry import APIS

NO_KEY = -1


class DecodedExchange:
    """Request and response of one exchange, decoded when first asked for."""

    __slots__ = ("_request", "_response", "exchange")

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange
        self._request: DecodedMessage | None = None
        self._response: DecodedMessage | None = None

    @property
    def request(self) -> DecodedMessage | None:
        """The request, if there is one; a raw SASL token is none."""
        frame = None if self.exchange.is_token else self.exchange.request
        if self._request is None and frame is not None:
            decode = decode_old_request if self.exchange.is_kafka07 else decode_request
            self._request = decode(frame.data)
        return self._request

    @property
    def response(self) -> DecodedMessage | None:
        """The response, if there is one; of one without request only the header can be read."""
        if self.exchange.is_token:
            return None
        frame, key, version = self.exchange.response, self.exchange.api_key, self.exchange.api_version
        if self._response is None and frame is not None and self.exchange.is_kafka07:
            self._response = decode_old_response(frame.data, NO_KEY if key is None else key)
        elif self._response is None and frame is not None:
            self._response = decode_response(frame.data, key, version or 0)
        return self._response

    @property
    def client_id(self) -> str | None:
        """What the client calls itself."""
        return self.request.header.get("client_id") if self.request else None

    def mentions(self, roles: frozenset[str], responses_only: bool = False) -> Iterator[Mention]:
        """Give all values of these roles, those of the request first."""
        if self.exchange.is_kafka07:
            yield from kafka07_mentions(None if responses_only else self.request, self.response, roles)
            return
        api = APIS.get(NO_KEY if self.exchange.api_key is None else self.exchange.api_key)
        version = self.exchange.api_version
        if api is None or version is None or version not in api.versions:
            return
        if not responses_only and finder(api.request, version, roles) and self.request:
            yield from _mentions_of(self.request, finder(api.request, version, roles))
        if self.exchange.response and finder(api.response, version, roles) and self.response:
            at = self.response.version
            yield from _mentions_of(self.response, finder(api.response, version if at is None else at, roles))
        inside = self._enveloped()
        if inside:
            yield from inside.mentions(roles, responses_only)

    def _enveloped(self) -> "DecodedExchange | None":
        """Give what an Envelope carries as an exchange of its own (KIP-590)."""
        exchange, request = self.exchange, self.exchange.request
        if exchange.api_key != ApiKey.ENVELOPE or request is None or self.request is None:
            return None
        data = (self.request.body or {}).get("request_data") or b""
        asked = enveloped_api(data)
        if asked is None:
            return None
        inner = request._replace(data=data)
        answer = exchange.response and ((self.response and self.response.body) or {}).get("response_data")
        response = exchange.response._replace(data=answer) if exchange.response and answer else None
        key, version = asked
        return DecodedExchange(
            exchange._replace(api_key=key, api_version=version, request=inner, response=response)
        )


def _mentions_of(whole: DecodedMessage, find: object) -> Iterator[Mention]:
    if whole.body is not None and callable(find):
        yield from find(whole.body)
