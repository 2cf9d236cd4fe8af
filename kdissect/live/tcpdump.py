"""tcpdump on an interface of this machine, which writes what it captures to a pipe.

It ends with this process, however that ends: a write to a pipe that nobody reads fails. It tells what the
kernel has dropped when it gets SIGUSR1 (tcpdump(8)).
"""

import os
import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Sequence

from kdissect.errors import UsageError, UserError

START_SECONDS = 10.0
END_SECONDS = 3.0
MOST_ERROR_BYTES = 1 << 16
SYSTEM_FOLDERS = "/usr/sbin:/sbin"  # where some systems keep it, out of the PATH of users
LISTENING = "listening on"
DROPPED = re.compile(r"(\d+) packets? dropped by kernel")
NO_RIGHTS = re.compile("permission|not permitted", re.IGNORECASE)


class CaptureEndedError(UserError):
    """tcpdump ended though nobody asked it to; the message is one sentence."""


class Tcpdump:
    """A running tcpdump; `stream` is the descriptor of what it captures, as pcap."""

    def __init__(
        self,
        interface: str,
        ports: Sequence[int],
        snaplen: int,
        buffer_bytes: int,
        immediate: bool = False,
    ) -> None:
        """Start tcpdump, and wait until it listens. Raise UsageError if it is missing, or may not capture.

        With `immediate` each packet comes at once. Else libpcap holds packets for up to a second, which costs
        a fifth of the processor time, and the kernel drops fewer: its buffer then has no slots of one size.
        """
        program = shutil.which("tcpdump", path=f"{os.environ.get('PATH', os.defpath)}:{SYSTEM_FOLDERS}")
        if program is None:
            raise UsageError("--interface needs tcpdump, which is not installed")
        self._interface = interface
        self._process = subprocess.Popen(
            [program, *_arguments(interface, ports, snaplen, buffer_bytes, immediate)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the watch
        )
        assert self._process.stdout is not None
        self.stream = self._process.stdout.fileno()
        self._lines: list[str] = []
        self._dropped = 0
        self._listens = threading.Event()
        self._thread = threading.Thread(target=self._read_lines, name="tcpdump", daemon=True)
        self._thread.start()
        self._listens.wait(START_SECONDS)
        if not any(LISTENING in line for line in self._lines):
            self.close()
            raise UsageError(self._refusal())

    def dropped(self) -> int:
        """Return how many packets the kernel has dropped, as known, and ask for the present count."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGUSR1)
        return self._dropped

    def ending(self) -> str:
        """Return, after its stream has ended, how it ended."""
        self._thread.join(END_SECONDS)
        last = next((line for line in reversed(self._lines) if line), "")
        return f"tcpdump on {self._interface} ended: {last.removeprefix('tcpdump: ')}"

    def close(self) -> None:
        """End it, and wait until it has ended."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._thread.join(END_SECONDS)
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()

    def _read_lines(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            text = line[:MOST_ERROR_BYTES].decode(errors="replace").strip()
            if found := DROPPED.search(text):
                self._dropped = int(found[1])
            self._lines = [*self._lines[-9:], text]
            if LISTENING in text:
                self._listens.set()
        self._listens.set()

    def _refusal(self) -> str:
        reason = " ".join(line.removeprefix("tcpdump: ") for line in self._lines if line)
        rights = " (it needs root, or cap_net_raw on tcpdump)" if NO_RIGHTS.search(reason) else ""
        return f"tcpdump cannot capture on {self._interface}: {reason or 'it does not listen'}{rights}"


def _arguments(
    interface: str, ports: Sequence[int], snaplen: int, buffer_bytes: int, immediate: bool = False
) -> list[str]:
    plain = " or ".join(f"tcp port {port}" for port in ports) or "tcp"
    # Behind `vlan` all offsets are those of tagged packets, so it comes last (pcap-filter(7)).
    chosen = f"({plain}) or (vlan and ({plain}))"
    buffer = str(max(buffer_bytes >> 10, 1))
    at_once = ["--immediate-mode"] if immediate else []
    return ["-i", interface, "-n", "-U", *at_once, "-s", str(snaplen), "-B", buffer, "-w", "-", chosen]
