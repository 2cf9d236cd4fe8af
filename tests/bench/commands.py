"""The commands that are compared."""

import compileall
import sys
from collections.abc import Sequence
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
FIELDS = (
    "frame.number", "frame.time_epoch", "tcp.stream",
    "kafka.api_key", "kafka.api_version", "kafka.correlation_id", "kafka.len",
)  # fmt: skip


def compile_modules() -> None:
    """Write the byte code of the modules, as installing them does.

    A checkout has none, and with PYTHONDONTWRITEBYTECODE it never gets any. Each process then compiles what
    it imports, which is a fifth of the processor time of a small capture.
    """
    compileall.compile_dir(REPOSITORY / "kdissect", quiet=1)


def kdissect(path: Path, *options: str) -> list[str]:
    """Return the command that reports on a capture."""
    return [sys.executable, "-P", "-m", "kdissect", "analyze", str(path), *options]


def tshark(path: Path, server_ports: Sequence[int]) -> list[str]:
    """Return the command that dissects every Kafka message of a capture and prints a line of seven fields for
    each."""
    decode = [word for port in server_ports for word in ("-d", f"tcp.port=={port},kafka")]
    fields = [word for name in FIELDS for word in ("-e", name)]
    return ["tshark", "-r", str(path), *decode, "-Y", "kafka", "-T", "fields", *fields]


def anchor(program: Path, path: Path, server_ports: Sequence[int]) -> list[str]:
    """Return the command of a native program that reads a capture: what the machine could do.

    It takes the capture and the ports of the servers, and counts what `analyze` counts.
    """
    return [str(program), str(path), *map(str, server_ports)]
