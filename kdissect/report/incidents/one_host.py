"""Clients that are all at one host: a capture made there, or of one application, shows what that host saw.

How others saw a server is not known then. The host itself, or its path, may be the reason as well.
"""

from collections.abc import Iterable

from kdissect.report.model.incidents import Signal
from kdissect.report.signals.client_names import BROKERS_OWN


def host_of(server: str) -> str:
    """Return the host in the name of a server: 10.1.0.1 of broker 1 (10.1.0.1:9092). It may be empty."""
    address = server.rpartition("(")[2].removesuffix(")")
    return address.rpartition(":")[0].strip("[]")


def one_host(signal: Signal) -> str:
    """Return the host of all clients of a signal, "" if there are several, or servers are there, too."""
    hosts = {
        host
        for client, _, host in (name.rpartition(" at ") for name in signal.clients)
        if not BROKERS_OWN.fullmatch(client)
    }
    host = hosts.pop() if len(hosts) == 1 else ""
    return "" if host in map(host_of, signal.servers) else host


def doubts_of_one_host(signal: Signal) -> Iterable[str]:
    """Yield what speaks against a server as the reason if all of its clients are at one host."""
    if host := one_host(signal):
        yield f"all clients that show it are at host {host}: that host may be the reason, or its path"
