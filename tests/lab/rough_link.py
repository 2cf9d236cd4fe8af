"""Two network namespaces and a bad link between them: real TCP over real interfaces, with loss, delay,
reordering and copies.

    clients ── near ══ veth ══ [ the link: drops, delays, doubles ] ══ veth ══ far ── brokers

The link is a process in a namespace of its own that passes Ethernet frames from one interface to the other,
and treats each as `tc netem` would, but by a seeded choice and on kernels without that module. Segmentation
offload is switched off, so that what the link loses is one packet. Needs root, iproute2 and ethtool.
"""

from __future__ import annotations

import contextlib
import ctypes
import heapq
import json
import os
import random
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from tests.lab.maven import need

NEAR, FAR = "10.77.0.1", "10.77.0.2"
CHECKOUT = Path(__file__).parents[2]
ALL_PROTOCOLS, OUTGOING = 3, 4  # ETH_P_ALL, PACKET_OUTGOING
CLONE_NEWNET = 0x40000000


class Roughness(NamedTuple):
    """Shares of packets that are lost, doubled and late; how long all take, and how much longer the late ones
    do."""

    lost: float = 0.01
    doubled: float = 0.02
    late: float = 0.03
    delay_s: float = 0.001
    late_s: float = 0.004


ROUGH = Roughness()


class RoughLink:
    """A context manager: the namespaces, the link between them, and processes run in either."""

    def __init__(self, seed: int, said: Path, roughness: Roughness = ROUGH) -> None:
        need("ip", "ethtool", "tcpdump")
        self._roughness = roughness
        self._names = {end: f"kd{os.getpid()}{end}" for end in ("near", "link", "far")}
        self._seed, self._said = seed, said
        self._running: list[subprocess.Popen[str]] = []

    def __enter__(self) -> Self:
        try:
            for name in self._names.values():
                _run("ip", "netns", "add", name)
                _run("ip", "-n", name, "link", "set", "lo", "up")
            for end, address in (("near", NEAR), ("far", FAR)):
                here, link = self._names[end], self._names["link"]
                _run(
                    "ip",
                    "link",
                    "add",
                    end,
                    "netns",
                    here,
                    "type",
                    "veth",
                    "peer",
                    "name",
                    f"to-{end}",
                    "netns",
                    link,
                )
                _run("ip", "-n", here, "address", "add", f"{address}/24", "dev", end)
                _run("ip", "-n", here, "link", "set", end, "up")
                _run("ip", "-n", link, "link", "set", f"to-{end}", "up")
                _run(
                    "ip",
                    "netns",
                    "exec",
                    here,
                    "ethtool",
                    "-K",
                    end,
                    "tx",
                    "off",
                    "tso",
                    "off",
                    "gso",
                    "off",
                    "gro",
                    "off",
                )
            self.impaired = self.start(
                "link", "tests.lab.rough_link", str(self._seed), *map(str, self._roughness)
            )
            self.impaired.stdout.readline()  # type: ignore[union-attr]
        except BaseException:
            self._clear()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._clear()

    def _clear(self) -> None:
        for process in reversed(self._running):
            self.stop(process)
        for name in self._names.values():
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)

    @contextlib.contextmanager
    def inside(self, end: str) -> Iterator[None]:
        """Move this thread, and the processes it starts, to a namespace for a while (setns(2))."""
        with (
            Path("/proc/thread-self/ns/net").open() as back,
            Path("/run/netns", self._names[end]).open() as there,
        ):
            _enter(there.fileno())
            try:
                yield
            finally:
                _enter(back.fileno())

    def start(self, end: str, module: str, *arguments: str) -> subprocess.Popen[str]:
        """Start a Python module of the tests in a namespace."""
        return self._start(end, [sys.executable, "-m", module, *arguments])

    def capture(self, end: str, path: Path) -> subprocess.Popen[str]:
        """Record what passes the interface of that end; whoever stops it has all of it in `path`."""
        command = [
            "tcpdump",
            "-i",
            end,
            "-n",
            "-s",
            "0",
            "-U",
            "--immediate-mode",
            "-Z",
            "root",
            "-w",
            str(path),
            "tcp",
        ]
        process = self._start(end, command)
        said = Path(str(self._said) + f".{len(self._running)}")
        deadline = time.monotonic() + 10
        while "listening on" not in said.read_text():
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"tcpdump does not listen: {said.read_text()}")
            time.sleep(0.02)
        return process

    def _start(self, end: str, command: list[str]) -> subprocess.Popen[str]:
        said = Path(str(self._said) + f".{len(self._running) + 1}")
        with said.open("w") as errors:
            process = subprocess.Popen(
                ["ip", "netns", "exec", self._names[end], *command],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
                env=os.environ | {"PYTHONPATH": str(CHECKOUT)},
            )  # fmt: skip
        self._running.append(process)
        return process

    @staticmethod
    def stop(process: subprocess.Popen[str]) -> str:
        """Interrupt a process, wait for its end, and give what it printed."""
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        try:
            return process.communicate(timeout=60)[0] or ""
        except (subprocess.TimeoutExpired, ValueError):
            process.kill()
            process.wait()
            return ""


def _run(*command: str) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")


def _enter(namespace: int) -> None:
    if ctypes.CDLL(None, use_errno=True).setns(namespace, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")


def pass_frames(seed: int, rough: Roughness) -> None:
    """Be the link: frames of one interface leave by the other, most of them."""
    chance = random.Random(seed)
    ends = [socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL_PROTOCOLS)) for _ in range(2)]
    for end, name in zip(ends, ("to-near", "to-far"), strict=True):
        end.bind((name, 0))
        end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
    due: list[tuple[float, int, int, bytes]] = []
    counted = {"passed": 0, "lost": 0, "doubled": 0, "late": 0}
    number = 0
    print("ready", flush=True)
    try:
        while True:
            wait = max(0.0, due[0][0] - time.monotonic()) if due else None
            for ready in select.select(ends, [], [], wait)[0]:
                frame, about = ready.recvfrom(1 << 16)
                if about[2] == OUTGOING:
                    continue
                lot = chance.random()
                if lot < rough.lost:
                    counted["lost"] += 1
                    continue
                late = lot > 1 - rough.late
                counted["late"] += late
                counted["passed"] += 1
                times = [time.monotonic() + rough.delay_s + late * rough.late_s]
                if rough.lost < lot < rough.lost + rough.doubled:
                    counted["doubled"] += 1
                    times.append(times[0] + 0.0002)
                for at in times:
                    number += 1
                    heapq.heappush(due, (at, number, 1 - ends.index(ready), frame))
            while due and due[0][0] <= time.monotonic():
                _, _, end, frame = heapq.heappop(due)
                ends[end].send(frame)
    except KeyboardInterrupt:
        print(json.dumps(counted), flush=True)


if __name__ == "__main__":
    pass_frames(int(sys.argv[1]), Roughness(*map(float, sys.argv[2:])))
