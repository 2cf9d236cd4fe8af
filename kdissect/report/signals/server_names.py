"""One name for each server: its node id if the capture shows it, and an address.

A broker with several listeners has one name, with the address that has the most connections.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from kdissect.report.query.node_ids import Address, node_ids
from kdissect.text import format_address


class ServerNames:
    """The names of servers by address."""

    def __init__(self, addresses: Iterable[Address], brokers: list[dict[str, Any]]) -> None:
        """Name `addresses` (one for each connection); `brokers` are rows of node id, host and port."""
        connections = Counter(addresses)
        distinct = sorted(connections, key=lambda address: (-connections[address], str(address)))
        self.nodes = node_ids(distinct, brokers)
        main: dict[int, Address] = {}
        for address in distinct:
            if address in self.nodes:
                main.setdefault(self.nodes[address], address)
        self._names = {
            address: f"broker {self.nodes[address]} ({_text(main[self.nodes[address]])})"
            if address in self.nodes
            else _text(address)
            for address in distinct
        }
        self._of_node = {node: self._names[address] for node, address in main.items()}

    def name(self, host: str | None, port: int | None) -> str:
        """Return the name of the server at an address."""
        return self._names.get((host, port)) or _text((host, port))

    def of_node(self, node_id: int) -> str:
        """Return the name of a broker; one that no connection of the capture leads to has only its id."""
        return self._of_node.get(node_id, f"broker {node_id}")

    def names(self, hosts: Sequence[str | None], ports: Sequence[int | None]) -> list[str]:
        """Return the names of many addresses."""
        return [self.name(*address) for address in zip(hosts, ports, strict=True)]


def _text(address: Address) -> str:
    return format_address(address[0] or "?", address[1])
