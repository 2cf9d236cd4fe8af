"""Long-running child processes: started, watched, ended.

Rule: a child never outlives the process that started it, and what it printed stays in a file.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

# Small machines run three brokers and several clients at once: little heap, cheap compiler, one collector
# thread, and no check of classes that the compiler of Java made.
SMALL_JVM = (
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:-BytecodeVerificationRemote",
    "-Djava.awt.headless=true",
)


@dataclass(slots=True)
class Child:
    """One process and the file with its output. `start` may be called again after it ended."""

    name: str
    command: list[str]
    output: Path
    environment: dict[str, str] | None = None
    patience: float = 60.0
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def start(self) -> Self:
        if self.running:
            raise RuntimeError(f"{self.name} runs already")
        with self.output.open("ab") as output:
            self.process = subprocess.Popen(
                _tied_to_parent(self.command),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self.environment,
                start_new_session=True,
            )
        return self

    def wait(self, timeout: float | None = None) -> None:
        """Wait for the end; raise with the tail of the output unless it ended well."""
        assert self.process is not None
        code = self.process.wait(timeout or self.patience)
        if code:
            raise RuntimeError(f"{self.name} ended with {code}:\n{self.tail()}")

    def stop(self) -> None:
        """Ask it to end (SIGTERM) and wait; what does not listen is killed."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def tail(self, lines: int = 25) -> str:
        return "\n".join(self.output.read_text(errors="replace").splitlines()[-lines:])

    def _end(self, first: signal.Signals) -> None:
        if self.process is None:
            return
        if self.process.poll() is None:
            self.process.send_signal(first)
        try:
            self.process.wait(self.patience)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _tied_to_parent(command: list[str]) -> list[str]:
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL", *command] if setpriv else command
