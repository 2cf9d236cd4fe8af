"""Network of a cluster and its clients: on hosts of their own, or on one machine's loopback.

`Hosts` makes a network namespace for each host and a switch (a bridge in a namespace) between them, and
records at the switch or beside one host. `Loopback` is one namespace; brokers differ by port only, and it
records what passes its loopback. Both keep one address for the operator, whose requests are not recorded.

`Hosts.way_to` puts a forwarder between a host and the switch; the way can then be cut, slowed or made
lossy."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

CHECKOUT = Path(__file__).parents[3]
CLONE_NEWNET = 0x40000000
BROKER_HOSTS = ("b1", "b2", "b3")
CLIENT_HOSTS = ("c1", "c2", "c3", "c4", "c5")
PORTS = {"CLIENT": 9092, "SASL": 9094, "TLS": 9095, "ADMIN": 9097, "CONTROLLER": 9093, "INTERNAL": 9091}
HIDDEN = ("ADMIN",)  # listeners that no capture holds
FIRST = ("nice", "-n", "-15")  # brokers and clients go ahead of whatever else the machine does


class Network:
    """Shared base of both kinds. Use as a context manager; the calling thread lives in it until the end."""

    hosts: tuple[str, ...]

    def __init__(self) -> None:
        self._prefix = f"kd{os.getpid()}"
        self._home = Path("/proc/thread-self/ns/net").open()  # noqa: SIM115 - it is the way back

    def address(self, host: str) -> str:
        raise NotImplementedError

    def port(self, broker: int, listener: str) -> int:
        raise NotImplementedError

    def ports(self, listener: str) -> list[int]:
        """Return the ports on which brokers have that listener."""
        return sorted({self.port(number, listener) for number in (1, 2, 3)})

    def command(self, host: str) -> list[str]:
        """Return what stands before a command that is to run on that host."""
        raise NotImplementedError

    def record(
        self, path: Path, at: str = "", with_controllers: bool = False, snaplen: int = 0
    ) -> subprocess.Popen[bytes]:
        raise NotImplementedError

    def _tcpdump(
        self, before: list[str], interface: str, path: Path, wanted: str, snaplen: int
    ) -> subprocess.Popen[bytes]:
        said = path.with_suffix(".tcpdump")
        words = [
            "tcpdump",
            "-i",
            interface,
            "-n",
            "-s",
            str(snaplen),
            "-U",
            "-B",
            "65536",
            "-Z",
            "root",
            "-w",
            str(path),
        ]
        with said.open("wb") as errors:
            process = subprocess.Popen([*before, "nice", "-n", "-18", *words, wanted], stderr=errors)
        deadline = time.monotonic() + 10
        while "listening on" not in said.read_text():
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"tcpdump does not listen: {said.read_text()}")
            time.sleep(0.02)
        return process

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _enter(self._home.fileno())
        for name in subprocess.run(
            ["ip", "netns", "list"], check=True, capture_output=True, text=True
        ).stdout.split():
            if name.startswith(f"{self._prefix}-"):
                subprocess.run(["ip", "netns", "del", name], check=False)

    def _add(self, host: str) -> str:
        name = f"{self._prefix}-{host}"
        run("ip", "netns", "add", name)
        run("ip", "-n", name, "link", "set", "lo", "up")
        # Else what a killed client could not send comes out in the next recording.
        run(*_inside(name), "sysctl", "-qw", "net.ipv4.tcp_orphan_retries=1")
        return name

    def _go_to(self, host: str) -> None:
        with Path("/run/netns", f"{self._prefix}-{host}").open() as there:
            _enter(there.fileno())


class Hosts(Network):
    """Each broker and each client host has its own address in 10.1.0.0/24; the operator is 10.1.0.250."""

    hosts = CLIENT_HOSTS

    def __enter__(self) -> Self:
        switch = self._add("sw")
        run("ip", "-n", switch, "link", "add", "br0", "type", "bridge")
        run("ip", "-n", switch, "link", "set", "br0", "up", "promisc", "on")
        for host in (*BROKER_HOSTS, *CLIENT_HOSTS, "operator"):
            name = self._add(host)
            run(
                "ip",
                "-n",
                name,
                "link",
                "add",
                "eth0",
                "type",
                "veth",
                "peer",
                "name",
                f"p-{host}",
                "netns",
                switch,
            )
            run("ip", "-n", name, "address", "add", f"{self.address(host)}/24", "dev", "eth0")
            run("ip", "-n", name, "link", "set", "eth0", "up")
            run("ip", "-n", switch, "link", "set", f"p-{host}", "master", "br0", "up")
            run(
                *_inside(name), "ethtool", "-K", "eth0", "tx", "off", "tso", "off", "gso", "off", "gro", "off"
            )
        self._go_to("operator")
        return self

    def address(self, host: str) -> str:
        if host == "operator":
            return "10.1.0.250"
        return f"10.1.0.{int(host[1:]) + 10 * (host[0] == 'c')}"

    def port(self, broker: int, listener: str) -> int:
        return PORTS[listener]

    def command(self, host: str) -> list[str]:
        return [*_inside(f"{self._prefix}-{host}"), *FIRST]

    def record(
        self, path: Path, at: str = "", with_controllers: bool = False, snaplen: int = 0
    ) -> subprocess.Popen[bytes]:
        """Record at the switch, or between the host `at` and whatever is on its way."""
        wanted = f"tcp and not host {self.address('operator')}"
        if not with_controllers:
            wanted += f" and not port {PORTS['CONTROLLER']}"
        return self._tcpdump(_inside(f"{self._prefix}-sw"), f"p-{at}" if at else "br0", path, wanted, snaplen)

    @contextlib.contextmanager
    def way_to(self, host: str) -> Iterator[Way]:
        """Put a forwarder between that host and the switch for a while."""
        switch = f"{self._prefix}-sw"
        here, there = f"x-{host}", f"y-{host}"
        run("ip", "-n", switch, "link", "add", here, "type", "veth", "peer", "name", there)
        run("ip", "-n", switch, "link", "set", here, "up", "promisc", "on")
        run(*_inside(switch), "ethtool", "-K", here, "tx", "off", "tso", "off", "gso", "off", "gro", "off")
        run("ip", "-n", switch, "link", "set", there, "master", "br0", "up")
        run("ip", "-n", switch, "link", "set", f"p-{host}", "nomaster", "promisc", "on")
        way = Way([*_inside(switch), *FIRST], f"p-{host}", here)
        try:
            yield way
        finally:
            way.end()
            run("ip", "-n", switch, "link", "del", here)
            run("ip", "-n", switch, "link", "set", f"p-{host}", "master", "br0")


class Loopback(Network):
    """All on 127.0.0.1: broker n listens on n * 10000 + 9092."""

    hosts = ("local",)

    def __enter__(self) -> Self:
        self._add("lo")
        self._go_to("lo")
        return self

    def address(self, host: str) -> str:
        return "127.0.0.1"

    def port(self, broker: int, listener: str) -> int:
        return broker * 10_000 + PORTS[listener]

    def command(self, host: str) -> list[str]:
        return list(FIRST)

    def record(
        self, path: Path, at: str = "", with_controllers: bool = False, snaplen: int = 0
    ) -> subprocess.Popen[bytes]:
        """Record the listeners of clients, and those between brokers if `at` is "internal"."""
        hidden = {*HIDDEN, "CONTROLLER", "INTERNAL"}
        if with_controllers:
            hidden.discard("CONTROLLER")
        if at == "internal":
            hidden.discard("INTERNAL")
        shown = [f"port {self.port(n, name)}" for n in (1, 2, 3) for name in PORTS if name not in hidden]
        # Refused advertised addresses have ports of their own.
        wanted = f"tcp and ({' or '.join([*shown, 'port 9999'])})"
        return self._tcpdump([], "lo", path, wanted, snaplen)


class Way:
    """A forwarder that runs; `set` changes what it does to packets and returns the moment of the change."""

    def __init__(self, before: list[str], host_side: str, switch_side: str) -> None:
        self._process = subprocess.Popen(
            [*before, sys.executable, "-m", "tests.lab.incidents.forwarder", host_side, switch_side],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=CHECKOUT,
        )
        self._read()
        self.counted: dict[str, int] = {}

    def set(self, **settings: Any) -> int:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(settings) + "\n")
        self._process.stdin.flush()
        self._read()
        return time.time_ns()

    def end(self) -> None:
        """End the forwarder; `counted` is what it counted then."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self.counted = json.loads(self._read() or "{}")
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _read(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()


def finish(recorder: subprocess.Popen[bytes]) -> None:
    """End a recording so that all of it is in its file."""
    time.sleep(0.3)
    recorder.send_signal(signal.SIGINT)
    recorder.wait(30)


def run(*command: str) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")


def _inside(namespace: str) -> list[str]:
    return ["nsenter", f"--net=/run/netns/{namespace}"]


def _enter(namespace: int) -> None:
    if ctypes.CDLL(None, use_errno=True).setns(namespace, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")
