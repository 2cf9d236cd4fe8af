"""Connections to a target in memory: no socket, no other process, and no time on the way.

Each request is answered at once, and the responses arrive when the present event has been dealt with.
"""

import asyncio
from collections.abc import Callable
from ipaddress import IPv4Address

from kdissect.replay.net.connection import Connection
from kdissect.replay.net.transport import TcpTransport
from kdissect.replay.settings import Address

PEER = IPv4Address("192.0.2.1")  # of a network for documentation (RFC 5737), which no route leads to
MOST_TURNS = 16  # before the event loop looks for anything else: each turn of it takes a µs or two
CORRELATION = slice(8, 12)  # of a request frame with its length


class DryTransport(TcpTransport):
    """Hands frames to a broker in memory, and its responses to the connections by which they came."""

    def __init__(self, answer: Callable[[bytes], bytes]) -> None:
        """`answer` returns the response to a frame, without its length and its correlation id."""
        super().__init__(None)
        self._answer = answer
        self._responses: dict[Connection, list[bytes]] = {}
        self._delivering = False

    def connect(self, connection: Connection, address: Address) -> None:
        """Connect as soon as the present event has been dealt with."""
        del address
        asyncio.get_running_loop().call_soon(self._accept, connection)

    def send(self, connection: Connection, data: bytes) -> None:
        """Have the broker answer a frame."""
        pending, correlation = connection.pending, data[CORRELATION]
        if not pending or pending[-1][0] != int.from_bytes(correlation, "big"):
            return  # no response is due
        response = self._answer(data)
        framed = b"".join(((len(response) + 4).to_bytes(4, "big"), correlation, response))
        waiting = self._responses.get(connection)
        if waiting is not None:
            waiting.append(framed)
            return
        if not self._responses and not self._delivering:
            asyncio.get_running_loop().call_soon(self._deliver)
        self._responses[connection] = [framed]

    def flush(self) -> None:
        """Do nothing: what was sent has arrived."""

    def disconnect(self, connection: Connection) -> None:
        """Drop what has not arrived yet."""
        self._responses.pop(connection, None)

    def _accept(self, connection: Connection) -> None:
        def made() -> None:
            if not connection.closed and self.pool is not None and self.pool.resolved(connection, [PEER]):
                self.pool.connected(connection, PEER)

        self._deal_with(lambda _pool: made())

    def _deliver(self) -> None:
        """Hand over what has arrived, and what is answered to the requests that this has sent."""
        self._delivering = True
        try:
            for _ in range(MOST_TURNS):
                arrived, self._responses = self._responses, {}
                for connection, responses in arrived.items():
                    if not connection.closed:
                        self.received(
                            connection, responses[0] if len(responses) == 1 else b"".join(responses)
                        )
                if not self._responses:
                    break
        finally:
            self._delivering = False
            if self._responses:
                asyncio.get_running_loop().call_soon(self._deliver)
