"""Records what passes on an interface, with tcpdump.

Rule: a capture is whole or it is an error. tcpdump must be listening before the traffic starts, must have
written every packet before it is stopped, and must not have lost one. Only a capture that is `starved` on
purpose may lose some, and then it must: `dropped` says how many.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.lab.maven import need

COUNTS = {"captured", "received by filter", "dropped by kernel"}  # as tcpdump names them


class LostPackets(RuntimeError):
    """tcpdump could not keep up, so there is no capture."""


class Capture:
    """A context manager: what `ports` send and receive while it is open ends up in `path` (.pcap or .pcapng).

    `eager` writes every packet as it comes; without it tcpdump keeps up with a hundred thousand packets a
    second.
    """

    def __init__(
        self,
        path: Path,
        ports: list[int],
        *,
        nanoseconds: bool = False,
        buffer_mib: int = 64,
        eager: bool = True,
        interface: str = "lo",
    ) -> None:
        need("tcpdump", *(["editcap"] if path.suffix == ".pcapng" else []))
        self.path = path
        self._raw = path.with_suffix(".recording")
        self._said = path.with_suffix(".tcpdump")
        self._starving = False
        self._strange = 0  # packets that were counted and are none of these ports
        self.dropped = 0
        precision = "nano" if nanoseconds else "micro"
        self._command = [
            # Ahead of the brokers and clients that it must keep up with.
            "nice",
            "-n",
            "-15",
            "tcpdump",
            "-i",
            interface,
            "-n",
            "-s",
            "0",
            *(["-U", "--immediate-mode"] if eager else []),
            "-B",
            str(buffer_mib * 1024),
            f"--time-stamp-precision={precision}",
            "-Z",
            "root",
            "-w",
            str(self._raw),
            " or ".join(f"tcp port {port}" for port in ports),
        ]

    def __enter__(self) -> Self:
        with self._said.open("wb") as said:
            self._process = subprocess.Popen(self._command, stdout=said, stderr=said, start_new_session=True)
        deadline = time.monotonic() + 10
        while "listening on" not in self._said.read_text():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self._process.kill()
                raise RuntimeError(f"tcpdump does not listen: {self._said.read_text()}")
            time.sleep(0.02)
        self._process.send_signal(signal.SIGUSR1)  # tcpdump says its counts
        while not (counts := self._counts()).keys() >= COUNTS and time.monotonic() < deadline:
            time.sleep(0.02)
        # Until its filter was in place everything on the interface was counted.
        self._strange = 0 if counts.get("captured") else counts.get("received by filter", 0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._wait_until_written()
            self._process.send_signal(signal.SIGINT)
            self._process.wait(60)
            if error is None:
                self._check()
                self._publish()
        finally:
            if self._process.poll() is None:
                self._process.kill()
                self._process.wait()
            self._raw.unlink(missing_ok=True)
            self._said.unlink(missing_ok=True)

    @contextlib.contextmanager
    def starved(self) -> Iterator[None]:
        """Keep tcpdump from reading for a while, as a busy machine does: what its buffer cannot hold is
        lost."""
        self._starving = True
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def _wait_until_written(self) -> None:
        """Wait until nothing more comes, and all of what came was read from the kernel's buffer; or for half
        a minute."""
        before: dict[str, int] = {}
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and self._process.poll() is None:
            self._process.send_signal(signal.SIGUSR1)
            time.sleep(0.5)
            counts = self._counts()
            said_all = counts == before and counts.keys() >= COUNTS
            if said_all and (self._are_whole(counts) or counts["dropped by kernel"]):
                return
            before = counts

    def _counts(self) -> dict[str, int]:
        """Return what tcpdump said last of each of its counts."""
        said = re.findall(r"(\d+) packets? ([a-z ]+)", self._said.read_text())
        return {what: int(number) for number, what in said}

    def _check(self) -> None:
        counts = self._counts()
        self.dropped = counts["dropped by kernel"]
        if self._starving:
            if not self.dropped:
                raise RuntimeError(f"tcpdump lost nothing: {counts}")
        elif self.dropped or not self._are_whole(counts):
            raise LostPackets(f"tcpdump lost packets: {counts}")

    def _publish(self) -> None:
        if self.path.suffix == ".pcapng":
            subprocess.run(["editcap", "-F", "pcapng", str(self._raw), str(self.path)], check=True)
        else:
            shutil.move(self._raw, self.path)

    def _are_whole(self, counts: dict[str, int]) -> bool:
        """Return whether all was read.

        The filter of a loopback interface sees every packet twice: going out and coming in.
        """
        received, captured = counts["received by filter"], counts["captured"]
        return any(received - self._strange <= seen <= received for seen in (captured, 2 * captured))
