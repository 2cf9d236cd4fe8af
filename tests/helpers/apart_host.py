"""A host with a network of its own, whose cable can be pulled: a network namespace of this machine.

It needs root and iproute2. Programs there reach this machine under `here`, and are reached as `address`.
"""

import os
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

HERE, ADDRESS, BITS = "10.217.0.1", "10.217.0.2", 30


class ApartHost:
    """A context manager."""

    here, address = HERE, ADDRESS

    def __init__(self) -> None:
        self._namespace, self._cable = f"kd{os.getpid()}-apart", f"kd{os.getpid()}"

    def __enter__(self) -> Self:
        try:
            _ip("netns", "add", self._namespace)
            there = ("type", "veth", "peer", "name", "eth0", "netns", self._namespace)
            _ip("link", "add", self._cable, *there)
            _ip("address", "add", f"{HERE}/{BITS}", "dev", self._cable)
            _ip("link", "set", self._cable, "up")
            _ip("-n", self._namespace, "address", "add", f"{ADDRESS}/{BITS}", "dev", "eth0")
            for device in ("eth0", "lo"):
                _ip("-n", self._namespace, "link", "set", device, "up")
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    @property
    def command(self) -> list[str]:
        """Return the words before a command that is to run there."""
        return ["ip", "netns", "exec", self._namespace]

    def cut(self) -> None:
        """Pull the cable: nothing goes through any more, and nobody is told."""
        _ip("-n", self._namespace, "link", "set", "eth0", "down")

    def _end(self) -> None:
        if Path("/run/netns", self._namespace).exists():
            _ip("netns", "del", self._namespace)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)
