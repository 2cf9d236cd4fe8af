"""Which broker listens at an address: node ids from Metadata and similar responses."""

from typing import Any

from kdissect.text import LOOPBACK_HOSTS

Address = tuple[str | None, int | None]


def node_ids(addresses: list[Address], brokers: list[dict[str, Any]]) -> dict[Address, int]:
    """Return the node id of each address that one broker has: by host and port, else by a unique port."""
    by_address: dict[Address, set[int]] = {}
    by_port: dict[int, set[int]] = {}
    for row in brokers:
        for host in LOOPBACK_HOSTS if row["host"] in LOOPBACK_HOSTS else (row["host"],):
            by_address.setdefault((host, row["port"]), set()).add(row["node_id"])
        by_port.setdefault(row["port"], set()).add(row["node_id"])
    ports = [port for _, port in addresses]
    node_of = {}
    for address in addresses:
        port = address[1]
        nodes = by_address.get(address)
        if not nodes and port is not None and ports.count(port) == 1:
            nodes = by_port.get(port)
        if nodes and len(nodes) == 1:
            node_of[address] = next(iter(nodes))
    return node_of
