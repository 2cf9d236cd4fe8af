"""Pseudonyms have the length of what they replace, and two names never share a short one."""

import ipaddress

import pytest

from kdissect.slice import same_length_names
from kdissect.slice.same_length_names import SameLengthPseudonyms
from kdissect.tables.anonymize import Pseudonyms
from kdissect.text import IPV4_PREFIX

NAMES = SameLengthPseudonyms.new("a key")
HOSTS = ["10.1.0.2", "192.168.100.7", "8.8.8.8", "2001:db8::7:1", "fe80::1", "kafka-1.example.com", "b1", "ä"]


@pytest.mark.parametrize("name", [*HOSTS, "orders", "x", "payments-eu-west", "Ünïcode-name", "a" * 249])
def test_names_keep_their_bytes_and_nothing_else(name: str) -> None:
    for kind in ("topic", "host", "client"):
        replaced = NAMES.name(kind, name)
        assert replaced is not None
        assert len(replaced.encode()) == len(name.encode())
        assert replaced != name
        assert replaced == SameLengthPseudonyms.new("a key").name(kind, name)


def test_long_names_begin_as_those_of_other_commands() -> None:
    name = "payments-eu-west-1"
    other = Pseudonyms.new("a key").name("topic", name)
    assert other is not None
    assert str(NAMES.name("topic", name)).startswith(other)


def test_short_names_stay_apart() -> None:
    names = [f"t{number}" for number in range(1000)]
    assert len({NAMES.name("topic", name) for name in names}) == 1000


def test_addresses_agree_with_their_texts_and_keep_networks() -> None:
    for text in ("10.1.0.2", "10.1.0.3", "192.168.100.7"):
        address = ipaddress.IPv4Address(text).packed
        assert NAMES.name("host", text) == str(ipaddress.IPv4Address(NAMES.ipv4(address)))
        assert NAMES.address(IPV4_PREFIX + address) == IPV4_PREFIX + NAMES.ipv4(address)
    one, two = (NAMES.ipv4(bytes([10, 1, 0, last])) for last in (2, 3))
    assert one[:3] == two[:3]
    assert one[3] != two[3]
    assert len({NAMES.ipv4(bytes([10, 1, 0, last])) for last in range(256)}) == 256


def test_addresses_that_name_nobody_stay() -> None:
    for text in ("127.0.0.1", "224.0.0.1", "0.0.0.0", "::1", "ff02::1", "::", "localhost"):
        assert NAMES.name("host", text) == text
    assert NAMES.mac(bytes(6)) == bytes(6)
    assert NAMES.mac(b"\xff" * 6) == b"\xff" * 6
    assert NAMES.mac(b"\x52\x54\x00\x01\x02\x03")[0] & 3 == 2


def test_global_ipv6_addresses_keep_neither_registry_nor_organization() -> None:
    ends = {
        text: str(NAMES.name("host", text)) for text in ("2003:e1:7::1", "2a02:26f0::9", "fd12:3456:789a::1")
    }
    for text, replaced in ends.items():
        assert len(replaced) == len(text)
        assert replaced.split(":")[0] != text.split(":")[0]
        assert [len(group) for group in replaced.split(":")] == [len(group) for group in text.split(":")]
    assert all(ipaddress.IPv6Address(ends[text]).packed[0] in range(0x20, 0x40) for text in list(ends)[:2])
    assert ends["fd12:3456:789a::1"].startswith("fd")
    assert str(NAMES.name("host", "fe80::1")).startswith("fe80::")


def test_ipv6_addresses_stay_apart_and_networks_stay_networks() -> None:
    network = ipaddress.IPv6Address("2a02:26f0:12:a00::").packed[:8]
    new = {NAMES.ipv6(network + bytes([0, 0, at >> 8, at & 255, 0, 0, 0, 9])) for at in range(1 << 10)}
    assert len(new) == 1 << 10
    assert len({address[:8] for address in new}) == 1


def test_permutations_of_ipv6_addresses_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes, cycle = [], same_length_names._cycle

    def measure(seed: bytes, size: int) -> tuple[int, ...]:
        sizes.append(size)
        return cycle(seed, size)

    monkeypatch.setattr(same_length_names, "_cycle", measure)
    NAMES.ipv6(ipaddress.IPv6Address("2a02:26f0:7:b00c:face:abcd:ef12:3456").packed)
    assert max(sizes) <= 256  # thousands of these are kept


def test_keys_have_digits_that_differ() -> None:
    keys = [NAMES.key_bytes(b"k" * size, size) for size in range(200)]
    assert [len(key) for key in keys] == list(range(200))
    assert len({key[:8] for key in keys[8:]}) == 192
    assert len({keys[199][at : at + 64] for at in (0, 64, 128)}) == 3


def test_a_long_key_is_hashed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed, digest = [], SameLengthPseudonyms._digest

    def count(names: SameLengthPseudonyms, data: bytes, size: int) -> bytes:
        hashed.append(len(data))
        return digest(names, data, size)

    monkeypatch.setattr(SameLengthPseudonyms, "_digest", count)
    assert len(NAMES.key_bytes(bytes(100_000), 100_000)) == 100_000
    assert sum(hashed) < 300_000
