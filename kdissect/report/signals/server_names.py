"""One name for each server: its node id if the capture shows it, and an address.

A broker with several listeners has one name, with the address that has the most connections, but for that at
which it is a controller. A node that is nothing but a controller is named so. Metadata names the listener
that clients use. Other listeners, such as that of replication, belong to the one broker of their
host, or to the one broker that all others fetch from there as followers.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from kdissect.report.query.topic_names import Address, node_ids
from kdissect.text import LOOPBACK_HOSTS, format_address

FETCHER = re.compile(r"broker-(\d{1,9})-f[etchr]*(?:-\d*)?")
"""The client id of a replica fetcher, with the node id of the follower; packets may be cut within it."""

Fetcher = tuple[Address, int]
"""Server from which a follower fetches, and the follower's node id."""


def follower_of(client_id: str | None) -> int | None:
    """Return the node id of the follower whose replica fetcher has this client id, None for other clients."""
    match = FETCHER.fullmatch(client_id or "")
    return int(match[1]) if match else None


def is_broker(name: str) -> bool:
    """Return whether a name of a server is that of a broker."""
    return name.startswith("broker ")


def is_node(name: str) -> bool:
    """Return whether a name of a server has a node id, and is not its address alone."""
    return name.endswith(")")


class ServerNames:
    """The names of servers by address."""

    def __init__(
        self,
        addresses: Iterable[Address] | Mapping[Address, int],
        brokers: list[dict[str, Any]],
        fetchers: Iterable[Fetcher] = (),
        silent: Collection[Address] = (),
        controllers: Collection[Address] = (),
    ) -> None:
        """Name `addresses` (one for each connection, or their numbers of connections).

        `brokers` are rows of node id, host and port, `fetchers` the connections of followers. Nobody talked
        at `silent` addresses: they are no listener of a broker, unless Metadata says so. Nodes are
        controllers at the addresses of `controllers`.
        """
        connections = Counter(addresses)
        distinct = sorted(connections, key=lambda address: (-connections[address], str(address)))
        advertised = node_ids(distinct, brokers)
        known = {*advertised.values(), *(row["node_id"] for row in brokers)}
        listening = [address for address in distinct if address not in silent]
        more = _other_listeners(listening, advertised, known, fetchers)
        self.nodes = advertised | more
        main: dict[int, Address] = {}
        known_nodes = (*(one for one in distinct if one in advertised), *more)
        for address in sorted(known_nodes, key=lambda one: one in controllers):
            main.setdefault(self.nodes[address], address)
        of_node = {
            node: f"{'controller' if address in controllers else 'broker'} {node} ({_text(address)})"
            for node, address in main.items()
        }
        self._names = {
            address: of_node[self.nodes[address]] if address in self.nodes else _text(address)
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
        addresses = list(zip(hosts, ports, strict=True))
        texts = {address: self.name(*address) for address in set(addresses)}
        return [texts[address] for address in addresses]


def _other_listeners(
    addresses: Sequence[Address], advertised: dict[Address, int], known: set[int], fetchers: Iterable[Fetcher]
) -> dict[Address, int]:
    """Return the node of addresses that Metadata does not name, as far as it can be told."""
    nodes_at: dict[str | None, set[int]] = defaultdict(set)
    for (host, _), node in advertised.items():
        nodes_at[host].add(node)
    followers: dict[Address, set[int]] = defaultdict(set)
    for address, follower in fetchers:
        followers[address].add(follower)
    known = known | {follower for ids in followers.values() for follower in ids}
    more = {}
    for address in addresses:
        if address in advertised:
            continue
        here = nodes_at[address[0]]
        rest = known - followers[address]
        if len(here) == 1 and address[0] not in LOOPBACK_HOSTS:
            more[address] = next(iter(here))
        elif followers[address] and len(rest) == 1:
            more[address] = next(iter(rest))
    return more


def _text(address: Address) -> str:
    return format_address(address[0] or "?", address[1])
