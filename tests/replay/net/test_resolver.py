"""Names are resolved in bounded time, and own addresses are known."""

import socket
import threading
from ipaddress import IPv4Address, IPv6Address

import pytest

from kdissect.replay.net import resolver
from kdissect.replay.net.resolver import is_own, resolve, resolve_all

HOME = IPv4Address("127.0.0.1")


def test_all_addresses_of_a_name_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(host: str, *_: object, **__: object) -> list[tuple[object, ...]]:
        assert host == "kafka.test"
        return [(0, 0, 0, "", (text, 0)) for text in ("10.0.0.1", "::ffff:10.0.0.2", "fd00::1")]

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    assert resolve("kafka.test") == {IPv4Address("10.0.0.1"), IPv4Address("10.0.0.2"), IPv6Address("fd00::1")}


def test_localhost_is_known_and_nonsense_is_not() -> None:
    assert HOME in resolve("localhost")
    assert resolve("x" * 300) == resolve("a..b") == frozenset()


def test_silent_servers_of_names_cost_a_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    never = threading.Event()

    def answer(host: str) -> frozenset[IPv4Address]:
        if host.startswith("silent"):
            never.wait(30)
        return frozenset({HOME})

    monkeypatch.setattr(resolver, "resolve", answer)
    names = [f"silent-{number}" for number in range(3)] + ["known"]
    found = resolve_all(names, most_s=0.3)
    never.set()
    assert found == {
        "silent-0": frozenset(),
        "silent-1": frozenset(),
        "silent-2": frozenset(),
        "known": {HOME},
    }
    assert resolve_all([]) == {}


def test_own_addresses_are_those_that_can_be_bound() -> None:
    assert is_own(HOME)
    assert is_own(IPv4Address("127.9.9.9"))
    assert not is_own(IPv4Address("192.0.2.7"))
    assert not is_own(IPv6Address("2001:db8::7"))
