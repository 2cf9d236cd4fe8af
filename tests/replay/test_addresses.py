"""One address has one form, however it is spelled."""

from ipaddress import IPv4Address, IPv6Address, ip_network

import pytest

from kdissect.replay.addresses import host_name, ip_of, is_loopback, network_of

HOME = IPv4Address("127.0.0.1")


@pytest.mark.parametrize("spelled", ["127.0.0.1", "::ffff:127.0.0.1", "::ffff:7f00:1", "64:ff9b::127.0.0.1"])
def test_an_ipv4_address_written_as_ipv6_is_that_address(spelled: str) -> None:
    assert ip_of(spelled) == HOME
    assert host_name(spelled) == "127.0.0.1"


def test_a_zone_is_no_part_of_an_address() -> None:
    assert ip_of("fe80::1%eth0") == IPv6Address("fe80::1")


def test_names_differ_neither_by_case_nor_by_a_dot_at_their_end() -> None:
    assert ip_of("Broker-1.Example.") is None
    assert host_name("Broker-1.Example.") == host_name("broker-1.example")


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST.", "127.0.0.2", "127.255.0.1", "::1", "0.0.0.0", "::"]
)
def test_what_leads_to_this_machine(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["128.0.0.1", "::2", "localhost.example", "10.0.0.1"])
def test_what_leads_elsewhere(host: str) -> None:
    assert not is_loopback(host)


@pytest.mark.parametrize(
    ("text", "network"),
    [
        ("10.0.0.0/8", "10.0.0.0/8"),
        ("10.1.2.3/8", "10.0.0.0/8"),
        ("10.1.2.3", "10.1.2.3/32"),
        ("::ffff:10.0.0.0/104", "10.0.0.0/8"),
        ("::ffff:10.1.2.3", "10.1.2.3/32"),
        ("fd00::/8", "fd00::/8"),
    ],
)
def test_networks(text: str, network: str) -> None:
    assert network_of(text) == ip_network(network)


def test_a_name_is_no_network() -> None:
    assert network_of("kafka.test") is None
