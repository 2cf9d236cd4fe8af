"""From captures to exchanges in the order in which they began.

Exchanges finish out of order: a long poll is answered after many exchanges that began later. So each of them
waits until nothing earlier can come. That is so when it began before

- every byte of a stream that is not yet part of a frame,
- every request without a response, and every response that waits for its request,
- every packet of the splits that are still to be read.

A request without a response holds up all that began after it, until its connection has moved on or the
capture ends. Exchanges that wait are kept on disk beyond a limit (see `external_sort`).
"""

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from kdissect.capture.index.splits import EndsBefore, Split
from kdissect.exchanges.connection_log import ConnectionLog
from kdissect.exchanges.exchange import Exchange, pack, unpack
from kdissect.exchanges.external_sort import ExternalSort
from kdissect.exchanges.prescan import (
    LiveFacts,
    PrescanResult,
    earliest_unfinished,
    new_processor,
    scan_pieces,
)
from kdissect.jit.rows import Records
from kdissect.streams.endpoints import Endpoints
from kdissect.streams.engine import ExchangeBatch
from kdissect.streams.flow_state import ORPHAN_RESPONSE, REQUEST_SIDE, RESPONSE_SIDE
from kdissect.streams.tls.keylog import NO_KEYS, KeyLog
from kdissect.streams.tls.tls_state import Plain
from kdissect.text import format_address, format_ip

MOST_ADDRESSES = 1 << 12  # that are kept as text

HeaderFilter: TypeAlias = Callable[[Records, "ExchangeReader"], NDArray[np.bool_]]
"""Returns which rows of `flow_state.ExchangeRow` are wanted, as far as headers tell."""


class ExchangeReader:
    """One reading of a capture, from its first split to its last."""

    def __init__(
        self,
        splits: Sequence[Split],
        ports: Iterable[int],
        prescan: PrescanResult | LiveFacts,
        keys: KeyLog = NO_KEYS,
        ends_before: EndsBefore | None = None,
    ) -> None:
        """Prepare to read the splits, of all TCP ports if `ports` is empty; `keys` decrypt TLS.

        Reading `ends_before` a split if that says so; `splits_read` counts those before.
        A capture that is still being written has no prescan: `LiveFacts` are collected while it is read.
        """
        self._splits = splits
        self._ports = tuple(ports)
        self._prescan = prescan
        self._connections = ConnectionLog(new_processor(splits, keys))
        self._ends_before = ends_before
        self.splits_read = 0
        self._count = 0
        self._addresses: dict[int, tuple[str, str]] = {}  # connection -> client, server; the last ones asked

    @property
    def nodes(self) -> dict[int, frozenset[tuple[str, int]]]:
        """Addresses (host, port) of the brokers of the capture, by node id."""
        return {node: frozenset(ends) for node, ends in self._prescan.nodes.items()}

    def exchanges(self, is_wanted: HeaderFilter, until_ns: int | None = None) -> Iterator[Exchange]:
        """Yield the wanted exchanges in the order of their first bytes; see `packed_exchanges`."""
        return map(unpack, self.packed_exchanges(is_wanted, until_ns))

    def packed_exchanges(self, is_wanted: HeaderFilter, until_ns: int | None = None) -> Iterator[bytes]:
        """Yield the wanted exchanges as bytes, in the order of their first bytes.

        Reading ends when every exchange that began before `until_ns` has been found; later ones may be among
        them.
        """
        order = ExternalSort()
        connections = self._connections
        try:
            for index, pieces in enumerate(scan_pieces(self._splits, self._ports, self._ends_before)):
                self.splits_read += 1
                for batch in connections.feed(pieces):
                    self._add(order, batch, is_wanted)
                if isinstance(self._prescan, PrescanResult):
                    for batch in connections.forget_over(self._prescan.later_ns[index]):
                        self._add(order, batch, is_wanted)
                unfinished_ns = min(earliest_unfinished(*state) for state in connections.states())
                complete_ns = self._complete_ns(index, unfinished_ns)
                yield from order.pop_before(complete_ns)
                if until_ns is not None and complete_ns >= until_ns:
                    return
            for batch in connections.close():
                self._add(order, batch, is_wanted)
            yield from order.pop_before(None)
        finally:
            order.close()

    def _complete_ns(self, index: int, unfinished_ns: int) -> int:
        """Return the time before which all exchanges have been found after the split `index`."""
        if isinstance(self._prescan, LiveFacts):
            return self._prescan.complete_ns(unfinished_ns)
        return min(unfinished_ns, self._prescan.later_ns[index])

    def identity(self, connection: int) -> int:
        """Return the public number of a connection."""
        return self._connections.identity(connection)

    def addresses(self, connection: int) -> tuple[str, str]:
        """Return the addresses of client and server of a connection that has an exchange."""
        known = self._addresses.get(connection)
        if known is None:
            ends = self._connections.endpoints(connection)
            a = format_address(format_ip(ends.a_host), ends.a_port)
            b = format_address(format_ip(ends.b_host), ends.b_port)
            if len(self._addresses) >= MOST_ADDRESSES:
                self._addresses.clear()
            known = self._addresses[connection] = (b, a) if self.client_is_b(connection) else (a, b)
        return known

    def endpoints(self, connection: int) -> Endpoints:
        """Return the 4-tuple of a connection."""
        return self._connections.endpoints(connection)

    def client_is_b(self, connection: int) -> bool:
        """Return whether end B of a connection that has an exchange is the client."""
        return self._connections.fact("client_side", connection) == 1

    def first_sequences(self, connection: int) -> tuple[int, int]:
        """Return the sequence numbers of the first bytes of both streams of a connection, A to B first."""
        return self._connections.first_sequences(connection)

    def protocol(self, connection: int) -> int:
        """Return the protocol of a connection, as in `ConnectionRow.protocol`."""
        return self._connections.fact("protocol", connection)

    def observe_plaintext(self, observe: Callable[[int, Plain], None]) -> None:
        """Have a function called with each part of plaintext of TLS and its connection."""
        self._connections.observe_plaintext(observe)

    def beginnings(self) -> Iterator[tuple[Endpoints, int]]:
        """Yield 4-tuple and time of the first packet (ns) of each connection so far, in order."""
        for connection in range(len(self._connections)):
            yield self.endpoints(connection), self._connections.fact("first_ns", connection)

    def has_beginning(self, connection: int) -> bool:
        """Return whether the capture has the beginning of a connection."""
        return bool(self._connections.fact("handshake", connection))

    def unread_tls(self, read: Container[int]) -> int:
        """Return how many connections speak TLS and gave no exchange; `read` are those that did."""
        return sum(self.identity(connection) not in read for connection in self._connections.under_tls())

    def mechanism(self, connection: int) -> str | None:
        """Return the SASL mechanism of a connection with raw tokens; None if the capture does not tell."""
        return self._prescan.mechanisms.get(self.identity(connection))

    def file_name(self, split: int) -> str:
        """Return the name of the capture file of a split."""
        return self._splits[split].name

    def _add(self, order: ExternalSort, batch: ExchangeBatch, is_wanted: HeaderFilter) -> None:
        if isinstance(self._prescan, LiveFacts):
            self._prescan.add(batch, self.identity)
        wanted = batch.exchanges[is_wanted(batch.exchanges, self)]
        connections = wanted["connection"].tolist()
        identity = {connection: self.identity(connection) for connection in set(connections)}
        is_orphan = wanted["status"] == ORPHAN_RESPONSE
        first_ns, packet = (
            np.where(is_orphan, wanted[RESPONSE_SIDE][name], wanted[REQUEST_SIDE][name]).tolist()
            for name in ("first_byte_ns", "packet")
        )
        keys = zip(
            first_ns,
            packet,
            map(identity.__getitem__, connections),
            wanted["ordinal"].tolist(),
            range(self._count, self._count + len(wanted)),  # several orphans in one packet: as they came
            strict=True,
        )
        self._count += len(wanted)
        for key, packed in zip(keys, pack(wanted, batch.arena), strict=True):
            order.add(key, packed)
