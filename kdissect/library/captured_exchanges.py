"""The exchanges of captures as typed Python objects, in the order in which they began, without Spark.

In: paths of captures and the filters that every command has. Out: one `CapturedExchange` after the other,
whose messages are decoded when they are first read. Memory is bounded: what waits for its turn lies on disk
beyond a limit (see `exchanges.external_sort`), and temporary files go when the iterator ends.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from os import PathLike, fspath
from typing import Any

from kdissect.capture.index.index import index_captures
from kdissect.capture.inputs import open_inputs
from kdissect.exchanges.decoded import DecodedExchange
from kdissect.exchanges.exchange import CapturedFrame
from kdissect.exchanges.filter import ExchangeFilter, error_codes, mentioned_groups, mentioned_topics
from kdissect.exchanges.prescan import prescan_capture
from kdissect.exchanges.reader import ExchangeReader
from kdissect.exchanges.topic_records import TopicRecord, topic_records
from kdissect.files import ScratchDirectory
from kdissect.library.filter_arguments import (
    Moment,
    Names,
    check_moments,
    name_fields,
    ns_of,
    ports_of,
    several,
    time_fields,
)
from kdissect.protocol.codec.messages import DecodedMessage
from kdissect.protocol.error_codes import error_name
from kdissect.protocol.kafka07.message_codec import kafka07_error_name
from kdissect.streams.flow_state import PACKET_BITS
from kdissect.streams.tls.keylog import keys_for

SPLIT_BYTES = 2 << 20
PACKET_MASK = (1 << PACKET_BITS) - 1


@dataclass(frozen=True, slots=True)
class MessagePlace:
    """Place of one message of an exchange: its size on the wire, its times, its packet."""

    size: int  # bytes, without the length in front
    captured_size: int  # bytes of it that the capture has
    first_ns: int  # since the epoch: the packet with its first byte
    last_ns: int | None  # the packet with its last byte; None if that was not captured
    capture_file: str | None
    packet: int  # number of the packet with its first byte, from 1 in its file


@dataclass(frozen=True, slots=True, eq=False)
class CapturedExchange:
    """A request and what became of it.

    `request` and `response` are None if they were not captured. `status` is as in the table of exchanges.
    """

    connection: int  # the number of the connection, as in every table
    client: str  # host:port
    server: str  # host:port
    decoded: DecodedExchange
    request_place: MessagePlace | None
    response_place: MessagePlace | None
    topic_names: Mapping[bytes, str]

    @property
    def status(self) -> str:
        """`answered`, `unanswered`, `no_response_expected`, `orphan_response` or `sasl_token`."""
        return self.decoded.exchange.status

    @property
    def api_key(self) -> int | None:
        """The API key; None if the request was not captured."""
        return self.decoded.exchange.api_key

    @property
    def api_name(self) -> str | None:
        """The name of the API, such as Fetch."""
        return self.decoded.exchange.api_name

    @property
    def api_version(self) -> int | None:
        """The version of the API; None for Kafka 0.7, which has none."""
        return self.decoded.exchange.api_version

    @property
    def correlation_id(self) -> int | None:
        """The correlation id on the wire."""
        return self.decoded.exchange.correlation_id

    @property
    def ordinal(self) -> int | None:
        """The number of the request on its connection, from 0."""
        return self.decoded.exchange.ordinal

    @property
    def client_id(self) -> str | None:
        """The client id of the request."""
        return self.decoded.client_id

    @property
    def first_ns(self) -> int:
        """The time of the first byte of the request, in ns since the epoch; of the response without one."""
        return self.decoded.exchange.first_ns

    @property
    def latency_ns(self) -> int | None:
        """The time from the last byte of the request to the first byte of the response."""
        return self.decoded.exchange.latency_ns

    @property
    def request(self) -> DecodedMessage | None:
        """The decoded request: `header`, `body` and, if its bytes are wrong, `fault`."""
        return self.decoded.request

    @property
    def response(self) -> DecodedMessage | None:
        """The decoded response, as `request`."""
        return self.decoded.response

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that the exchange names, also by topic id, each once."""
        return tuple(dict.fromkeys(mentioned_topics(self.decoded, self.topic_names)))

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups that the exchange names, each once."""
        return tuple(dict.fromkeys(mentioned_groups(self.decoded)))

    @property
    def errors(self) -> tuple[str, ...]:
        """The names of the errors in the response, each once; empty for a success."""
        name = kafka07_error_name if self.decoded.exchange.is_kafka07 else error_name
        return tuple(dict.fromkeys(name(code) for code in error_codes(self.decoded) if code))

    @property
    def records(self) -> Iterator[TopicRecord]:
        """The records that a Produce writes, or that a Fetch or ShareFetch brings, in their order."""
        return topic_records(self.decoded, self.topic_names)


def read(
    paths: str | PathLike[str] | Sequence[str | PathLike[str]],
    *,
    api: Names = (),
    client: Names = (),
    topic: Names = (),
    group: Names = (),
    broker: Names = (),
    error: Names = (),
    connection: Names = (),
    since: Moment | None = None,
    until: Moment | None = None,
    slower_than: timedelta | None = None,
    port: int | Iterable[int] = (),
    keylog: str | PathLike[str] | None = None,
) -> Iterator[CapturedExchange]:
    """Return the exchanges of captures in the order in which they began; they are read while one iterates.

    `paths` are captures or directories of captures. The filters are those of the command line: different ones
    are ANDed, several values of one are ORed. `keylog` names a TLS key log. Raise InputError for what is not
    a capture, and UsageError for an unknown API or error, or for what is not a time.
    """
    texts = [fspath(paths)] if isinstance(paths, str | PathLike) else [fspath(path) for path in paths]
    fields = name_fields(api=api, client=client, topic=topic, group=group, broker=broker, error=error)
    fields |= {
        "connections": frozenset(map(str, several(connection))),
        "slower_than_ns": None if slower_than is None else ns_of(slower_than),
    }
    check_moments(since, until)
    key_log = None if keylog is None else fspath(keylog)
    return _exchanges(texts, fields, (since, until), ports_of(port), key_log)


def _exchanges(
    paths: list[str],
    fields: dict[str, Any],
    window: tuple[Moment | None, Moment | None],
    ports: tuple[int, ...],
    keylog: str | None,
) -> Iterator[CapturedExchange]:
    with ScratchDirectory() as scratch:
        index = index_captures(open_inputs(paths, str(scratch)).files, SPLIT_BYTES)
        start_ns = index.earliest_time_ns or 0
        selection = ExchangeFilter(**fields, **time_fields(*window, start_ns))
        keys = keys_for(keylog, index.files)
        prescan = prescan_capture(index.splits, ports, keys)
        reader = ExchangeReader(index.splits, ports, prescan, keys)
        for exchange in reader.exchanges(selection.header_mask, selection.until_ns):
            decoded = DecodedExchange(exchange)
            if not selection.selects(decoded, prescan.names):
                continue
            client, server = reader.addresses(exchange.connection)
            yield CapturedExchange(
                connection=reader.identity(exchange.connection),
                client=client,
                server=server,
                decoded=decoded,
                request_place=_place(exchange.request, reader),
                response_place=_place(exchange.response, reader),
                topic_names=prescan.names,
            )


def _place(frame: CapturedFrame | None, reader: ExchangeReader) -> MessagePlace | None:
    if frame is None:
        return None
    return MessagePlace(
        size=frame.size,
        captured_size=len(frame.data),
        first_ns=frame.first_ns,
        last_ns=frame.last_ns,
        capture_file=None if frame.packet < 0 else reader.file_name(frame.packet >> PACKET_BITS),
        packet=frame.packet & PACKET_MASK,
    )
