"""The exchanges that a request chooses, and what a selection of packets needs of each.

In come the exchanges that headers choose, out go those that messages choose too, with their times, packets
and comments. Reading messages takes most of the time of a slice of many exchanges, so several processes do
it (`exchange_workers`).
"""

import marshal
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from kdissect.exchanges.decoded import DecodedExchange
from kdissect.exchanges.exchange import CapturedFrame, unpack
from kdissect.exchanges.exchange_workers import PackedBatch, Work, packed_batches, texts_in_order
from kdissect.exchanges.filter import ExchangeFilter
from kdissect.exchanges.reader import ExchangeReader, HeaderFilter
from kdissect.slice.message_comment import message_comments


class ChosenFrame(NamedTuple):
    """A message of a chosen exchange: when it came, its first packet, and the comment on that."""

    first_ns: int
    last_ns: int  # the first time, if its end was lost
    packet: int
    comment: str


class ChosenExchange(NamedTuple):
    """A chosen exchange: the row of its connection, and its messages."""

    connection: int
    request: ChosenFrame | None
    response: ChosenFrame | None


class CommentNames(NamedTuple):
    """Inputs of comments in place of an exchange and the names of topics by id."""

    shown: Callable[[DecodedExchange], DecodedExchange]
    topics: Mapping[bytes, str]


def chosen_exchanges(
    reader: ExchangeReader, header_filter: HeaderFilter, choose: Work[PackedBatch]
) -> Iterator[ChosenExchange]:
    """Yield the exchanges that headers and then `choose`, made by `chooser`, choose.

    They come in the order of their first bytes.
    """
    # Without an end, even with --until: a connection that comes later may use the same ports.
    batches = packed_batches(reader.packed_exchanges(header_filter), reader)
    for _, text in texts_in_order(batches, choose):
        for connection, request, response in marshal.loads(text):  # noqa: S302 - of our own processes
            yield ChosenExchange(
                connection, request and ChosenFrame(*request), response and ChosenFrame(*response)
            )


def chooser(
    wanted: ExchangeFilter, topic_names: Mapping[bytes, str], names: CommentNames
) -> Work[PackedBatch]:
    """Return the function that chooses among a batch; `topic_names` are those that the filter knows."""

    def choose(batch: PackedBatch) -> tuple[int, bytes]:
        decoded = map(DecodedExchange, map(unpack, batch.exchanges))
        chosen = [_row(one, names) for one in decoded if wanted.selects(one, topic_names)]
        return len(chosen), marshal.dumps(chosen)

    return choose


def _row(decoded: DecodedExchange, names: CommentNames) -> tuple[object, ...]:
    """Return the fields of a `ChosenExchange` as plain tuples."""
    exchange = decoded.exchange
    request, response = message_comments(names.shown(decoded), names.topics)
    return exchange.connection, _fields(exchange.request, request), _fields(exchange.response, response)


def _fields(frame: CapturedFrame | None, comment: str) -> tuple[int, int, int, str] | None:
    if frame is None:
        return None
    last_ns = frame.first_ns if frame.last_ns is None else frame.last_ns
    return frame.first_ns, last_ns, frame.packet, comment
