"""Hosts as they are compared: one value for one address, however it is spelled.

In: hosts as options, captures and targets spell them. Out: addresses and names in one form. An IPv4 address
that is written as IPv6 is that IPv4 address: mapped (RFC 4291, section 2.5.5.2) or behind the well-known
prefix of NAT64 (RFC 6052, section 2.1). A zone (RFC 4007) says through which interface an address is reached,
and is left out. Names differ neither by case nor by a dot at their end (RFC 4343, RFC 1034). Nothing here
asks the system: see `net.resolver`.
"""

import ipaddress
from typing import TypeAlias

from kdissect.text import LOOPBACK_HOSTS

IpAddress: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
IpNetwork: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

EMBEDDED = (ipaddress.IPv6Network("::ffff:0:0/96"), ipaddress.IPv6Network("64:ff9b::/96"))
"""Networks of IPv6 addresses whose last 32 bits are an IPv4 address."""

IPV4_BITS, EMBEDDED_BITS = 32, 96


def ip_of(host: str) -> IpAddress | None:
    """Return the address that a host spells; None for a name."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address) and any(address in network for network in EMBEDDED):
        return ipaddress.IPv4Address(int(address) & ((1 << IPV4_BITS) - 1))
    return address


def host_name(host: str) -> str:
    """Return a host in the form in which names are compared; an address in its own form."""
    address = ip_of(host)
    return host.rstrip(".").lower() if address is None else str(address)


def network_of(text: str) -> IpNetwork | None:
    """Return the network that a text spells, which may be one address; None for a name."""
    try:
        network = ipaddress.ip_network(text, strict=False)
    except ValueError:
        address = ip_of(text)
        return None if address is None else ipaddress.ip_network(address)
    if isinstance(network, ipaddress.IPv6Network) and any(map(network.subnet_of, EMBEDDED)):
        first = ipaddress.IPv4Address(int(network.network_address) & ((1 << IPV4_BITS) - 1))
        return ipaddress.IPv4Network((first, network.prefixlen - EMBEDDED_BITS))
    return network


def is_loopback(host: str | IpAddress) -> bool:
    """Return whether a host is the machine itself wherever it is read: `localhost`, 127/8, ::1.

    The address without a value (0.0.0.0, ::) leads there too.
    """
    address = ip_of(host) if isinstance(host, str) else host
    if address is not None:
        return address.is_loopback or address.is_unspecified
    return host_name(str(host)) in LOOPBACK_HOSTS
