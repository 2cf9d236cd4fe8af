"""From capture to exchanges in the order in which they began.

Exchanges finish out of order: a long poll is answered after many that began later. So each waits until nothing earlier
can come, which is so when it began before

- every byte of a stream that is not yet part of a frame,
- every request without an answer, and every answer that waits for its request,
- every packet of the splits that are still to be read.

A request that never gets an answer holds up all that began after it until its connection has moved on or the capture
ends; what waits is kept on disk beyond a limit (see `sorting`).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from kdissect.capture.index.splits import Split
from kdissect.exchanges.exchange import (
    Exchange,
    pack,
    unpack,
)
from kdissect.exchanges.external_sort import ExternalSort
from kdissect.exchanges.prescan import (
    PrescanResult,
    new_conversations,
    pieces_of,
)
from kdissect.exchanges.watermark import earliest_unfinished
from kdissect.jit.rows import Records, rows_of
from kdissect.streams.flow_state import ORPHAN_RESPONSE, ExchangeRow
from kdissect.streams.processor import ExchangeBatch, FlowProcessor
from kdissect.streams.tls.keylog import NO_KEYS, KeyLog
from kdissect.text import format_address, format_ip

HeaderFilter = Callable[
    [Records, "ExchangeReader"], NDArray[np.bool_]
]  # rows of `flow_state.ExchangeRow` -> which of them are wanted


class ExchangeReader:
    """One way through a capture, from its first split to its last."""

    def __init__(
        self, splits: Sequence[Split], ports: Iterable[int], foresight: PrescanResult, keys: KeyLog = NO_KEYS
    ) -> None:
        self._splits = splits
        self._ports = tuple(ports)
        self._foresight = foresight
        self.nodes = foresight.nodes
        self._conversations: FlowProcessor = new_conversations(splits, keys)
        self._count = 0
        self._addresses: dict[int, tuple[str, str]] = {}

    def exchanges(self, chosen: HeaderFilter, until_ns: int | None = None) -> Iterator[Exchange]:
        """Give the exchanges that `chosen` chooses, in the order of their first bytes; read no further than `until_ns`."""
        order = ExternalSort()
        conversations = self._conversations
        try:
            for index, pieces in enumerate(pieces_of(self._splits, self._ports)):
                for harvest in conversations.feed(pieces):
                    self._add(order, harvest, chosen)
                held = min(earliest_unfinished(state, count) for state, count in conversations.states())
                certain = min(held, self._foresight.coming_ns[index])
                yield from map(unpack, order.before(certain))
                if until_ns is not None and certain >= until_ns:
                    return
            for harvest in conversations.close():
                self._add(order, harvest, chosen)
            yield from map(unpack, order.before(None))
        finally:
            order.close()

    def identity(self, connection: int) -> int:
        """Give the public number of a connection."""
        return self._conversations.identities[connection]

    def addresses(self, connection: int) -> tuple[str, str]:
        """Give the addresses of client and server of a connection on which an exchange was found."""
        known = self._addresses.get(connection)
        if known is None:
            ends = self._conversations.endpoints[connection]
            a, b = (
                format_address(format_ip(ends.a_host), ends.a_port),
                format_address(format_ip(ends.b_host), ends.b_port),
            )
            client_is_b = int(self._conversations.state.connections[connection].client_side) == 1
            known = self._addresses[connection] = (b, a) if client_is_b else (a, b)
        return known

    def began(self, connection: int) -> bool:
        """Tell whether the capture has the beginning of a connection."""
        return bool(self._conversations.state.connections[connection].handshake)

    def mechanism(self, connection: int) -> str | None:
        """Give the SASL mechanism of a connection with raw tokens; None where the capture does not tell."""
        return self._foresight.mechanisms.get(connection)

    def file_name(self, split: int) -> str:
        """Give the name of the capture that a split is of."""
        return self._splits[split].name

    def _add(self, order: ExternalSort, harvest: ExchangeBatch, chosen: HeaderFilter) -> None:
        wanted = harvest.exchanges[chosen(harvest.exchanges, self)]
        for row in rows_of(ExchangeRow, wanted):
            frame = row.response if row.status == ORPHAN_RESPONSE else row.request
            self._count += 1
            key = (
                frame.first_byte_ns,
                frame.packet,
                self._conversations.identities[row.connection],
                row.ordinal,
                self._count,  # several orphans in one packet: as they came
            )
            order.add(key, pack(row, harvest.arena))
