"""Pseudonyms as long as what they replace: names, addresses of IP and of link layers.

In come a name and its kind, or an address, out goes another one with as many bytes, so that a packet stays as
long as it was. The same key leads to the same pseudonyms.

- A name of LONG bytes or more becomes the pseudonym that other commands use, with more digits of the same
  hash, or with digits alone if its kind does not fit.
- In a shorter name each character becomes another one of its alphabet, by a permutation that depends on the
  key and on what stands before it. So two names never become one.
- An address becomes another one by such permutations, number by number, where a number keeps its count of
  digits. So its text keeps its length too, and networks stay networks. A group of IPv6 counts as two bytes,
  and a global address stays a global one. Loopback, multicast and unspecified addresses name nobody and
  stay, and so does the prefix of IPv6 addresses of a link.
"""

import hashlib
import ipaddress
import random
import re
from functools import lru_cache

from kdissect.tables.anonymize import KEPT, Pseudonyms
from kdissect.text import IPV4_PREFIX, format_uuid

NAMES_KEPT = 1 << 10
LONG = 8  # bytes of a name that becomes digits: 32 bits, as in other pseudonyms
ALPHABETS = ("abcdefghijklmnopqrstuvwxyz0123456789", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "-._")
OTHER = "x"  # for any other character, as often as it has bytes
OCTETS = (range(10), range(10, 100), range(100, 256))  # of one, two and three digits
FIRST_OCTETS = (range(1, 10), range(10, 100), (*range(100, 127), *range(128, 224)))
LEADING = (range(1), range(1, 16), range(16, 256))  # first byte of a group that is not 0: one digit, or two
FOLLOWING = (range(256),)
GLOBAL = range(0x20, 0x40)  # first bytes of addresses that the Internet routes (RFC 4291, section 2.4)
OF_A_LINK = 0xFE
IPV4 = re.compile(r"\d{1,3}(\.\d{1,3}){3}")
KEPT_HOSTS = frozenset(("localhost", "localhost.localdomain"))
BROADCAST = b"\xff" * 6
LOCAL, GROUP = 0x02, 0x01  # bits of the first byte of a MAC address (IEEE 802)


class SameLengthPseudonyms(Pseudonyms):
    """Pseudonyms under one key that have the length of what they replace."""

    __slots__ = ()

    def name(self, kind: str, name: str | None) -> str | None:
        """Return the pseudonym of a name; None, an empty name and a name of Kafka itself stay."""
        if not name or name in KEPT.get(kind, ()):
            return name
        return _kept_name(self, kind, name)

    def _new_name(self, kind: str, name: str) -> str:
        raw = name.encode("utf-8", "surrogateescape")
        if kind == "topic_id":
            return format_uuid(self._digest(b"topic_id\0" + raw, 16))
        if kind == "host":
            address = self._host(name)
            if address is not None:
                return address
        if len(raw) < LONG:
            return self._short(kind, name)
        digits = self._digest(f"{kind}\0".encode() + raw, 16).hex()
        digits += "".join(self._digest(b"%d\0" % at + raw, 32).hex() for at in range(len(raw) // 64 + 1))
        return (f"{kind}-{digits}" if len(raw) >= len(kind) + 1 + LONG else digits)[: len(raw)]

    def address(self, host: bytes) -> bytes:
        """Return the pseudonym of an address of 16 bytes; IPv4 is ::ffff:a.b.c.d."""
        if host.startswith(IPV4_PREFIX):
            return IPV4_PREFIX + self.ipv4(host[12:])
        return self.ipv6(host)

    def ipv4(self, host: bytes) -> bytes:
        """Return the pseudonym of an IPv4 address."""
        if not any(host[0] in numbers for numbers in FIRST_OCTETS):
            return host
        replaced = bytearray()
        for at, number in enumerate(host):
            kinds = OCTETS if at else FIRST_OCTETS
            replaced.append(self._number(number, b"ipv4" + host[:at], kinds))
        return bytes(replaced)

    def ipv6(self, host: bytes) -> bytes:
        """Return the pseudonym of an IPv6 address: as many digits in each group, and as global as it was."""
        address = ipaddress.IPv6Address(host)
        if address.is_loopback or address.is_multicast or address.is_unspecified:
            return host
        if address.ipv4_mapped is not None:
            return IPV4_PREFIX + self.ipv4(host[12:])
        replaced = bytearray(host[:2] if host[0] == OF_A_LINK else b"")
        for at in range(len(replaced), 16):
            kinds = FOLLOWING if at % 2 and host[at - 1] else LEADING
            if at == 0:
                kinds = (GLOBAL,) if host[0] in GLOBAL else (range(host[0], host[0] + 1),)
            replaced.append(self._number(host[at], b"ipv6" + host[:at], kinds))
        return bytes(replaced)

    def mac(self, address: bytes) -> bytes:
        """Return the pseudonym of an address of a link layer: a local one, of no maker's."""
        if not any(address) or address[0] & GROUP or address == BROADCAST[: len(address)]:
            return address
        digest = bytearray(self._digest(b"mac\0" + address, len(address)))
        digest[0] = digest[0] & ~GROUP | LOCAL
        return bytes(digest)

    def key_bytes(self, data: bytes, size: int) -> bytes:
        """Return this many hexadecimal digits that stand for the key of a record, equal for equal keys."""
        first = self._digest(b"key\0" + data, 32)  # of all bytes, once: there may be many megabytes
        digits = bytearray(first.hex().encode())
        while len(digits) < size:
            digits += self._digest(b"%d\0" % len(digits) + first, 32).hex().encode()
        return bytes(digits[:size])

    def _host(self, name: str) -> str | None:
        """Return the pseudonym of a host that is an address; None for another name."""
        if name in KEPT_HOSTS:
            return name
        try:
            if IPV4.fullmatch(name):
                return str(ipaddress.IPv4Address(self.ipv4(ipaddress.IPv4Address(name).packed)))
            replaced = str(ipaddress.IPv6Address(self.ipv6(ipaddress.IPv6Address(name).packed)))
        except ValueError:
            return None
        return replaced if len(replaced) == len(name) else None

    def _short(self, kind: str, name: str) -> str:
        replaced = ""
        for at, sign in enumerate(name):
            alphabet = next((one for one in ALPHABETS if sign in one), None)
            if alphabet is None:
                replaced += OTHER * len(sign.encode("utf-8", "surrogateescape"))
                continue
            before = f"{kind}\0{name[:at]}\0".encode("utf-8", "surrogateescape")
            replaced += alphabet[self._number(alphabet.index(sign), before, (range(len(alphabet)),))]
        return replaced

    def _number(self, number: int, before: bytes, kinds: tuple[range | tuple[int, ...], ...]) -> int:
        """Return what a number becomes behind `before`: another one of its kind."""
        kind = next(kind for kind in kinds if number in kind)
        seed = self._digest(before + b"\0%d" % kind[0], 16)
        return kind[_cycle(seed, len(kind))[kind.index(number)]]

    def _digest(self, data: bytes, size: int) -> bytes:
        return hashlib.blake2b(data, key=self.key[:64], digest_size=size).digest()


_kept_name = lru_cache(NAMES_KEPT)(SameLengthPseudonyms._new_name)  # noqa: SLF001 - of this module
"""The pseudonym of a name: a few names stand in most messages."""


@lru_cache(4096)
def _cycle(seed: bytes, size: int) -> tuple[int, ...]:
    """Return a permutation of one cycle, so that nothing stays where it is (Sattolo's algorithm)."""
    chance, order = random.Random(seed), list(range(size))
    for last in range(size - 1, 0, -1):
        other = chance.randrange(last)
        order[last], order[other] = order[other], order[last]
    return tuple(order)
