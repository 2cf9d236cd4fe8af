"""Knowledge of the system about hosts: the addresses of names, and which addresses are this machine's own.

In: names of captured brokers. Out: their addresses. Names are resolved all at once and in bounded time, since
the names of a captured cluster need not be known here, and a server of names may be silent.
"""

import socket
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from queue import Empty, SimpleQueue

from kdissect.replay.addresses import IpAddress, ip_of

RESOLVE_S = 5.0  # for all names together
AT_ONCE = 32  # names that are asked for at the same time
NOBODY = "192.0.2.1"  # of TEST-NET-1 (RFC 5737): no machine has it


def resolve_all(hosts: Iterable[str], most_s: float = RESOLVE_S) -> dict[str, frozenset[IpAddress]]:
    """Return the addresses of hosts; none for a host that is not known, or not in time."""
    found: dict[str, frozenset[IpAddress]] = dict.fromkeys(hosts, frozenset())
    waiting: SimpleQueue[str] = SimpleQueue()
    for host in found:
        waiting.put(host)
    threads = [
        threading.Thread(target=_resolve_some, args=(waiting, found), daemon=True)
        for _ in range(min(AT_ONCE, len(found)))
    ]
    for thread in threads:
        thread.start()
    end = time.monotonic() + most_s
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    return dict(found)


def _resolve_some(waiting: "SimpleQueue[str]", found: dict[str, frozenset[IpAddress]]) -> None:
    with suppress(Empty):
        while True:
            host = waiting.get_nowait()
            found[host] = resolve(host)


def resolve(host: str) -> frozenset[IpAddress]:
    """Return all addresses of a host; none if it is not known."""
    try:
        answers = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):  # the latter for a name that is too long
        return frozenset()
    addresses = (ip_of(str(answer[4][0])) for answer in answers)
    return frozenset(address for address in addresses if address is not None)


@lru_cache(1 << 10)
def is_own(address: IpAddress) -> bool:
    """Return whether an address belongs to this machine: only then a socket can be bound to it."""
    return _can_bind(str(address)) and not (address.version == 4 and _can_bind(NOBODY))


def _can_bind(host: str) -> bool:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((host, 0))
        except OSError:
            return False
    return True
