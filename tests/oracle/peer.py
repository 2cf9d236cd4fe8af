"""The Java program KafkaMessages as a Python object: messages in, what Kafka's classes make of them out.

In: a class of `org.apache.kafka.common.message`, a version, and bytes. Out: a `Reading` for each message:
values and the bytes that the class writes, or the reason why it refuses. The Java file describes the blocks
on the pipe.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from struct import Struct
from typing import IO, Any, NamedTuple

from tests.lab.java_compiler import compiled
from tests.lab.maven import Release, classpath

_SOURCE = Path(__file__).with_name("KafkaMessages.java")
_SIZE = Struct(">i")
_OPTIONS = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")


class Reading(NamedTuple):
    """Reading of one message's bytes by a class of Kafka."""

    refusal: str | None  # why the class refuses the bytes; then the rest is empty
    consumed: int = 0  # bytes
    values: str = ""  # JSON, see KafkaMessages.java
    written: bytes | None = None  # the message, written again by the same class
    unwritten: str = ""  # why the class cannot write what it has read


def release(version: str) -> Release:
    """Return kafka-clients of `version` with what it needs to run."""
    return Release(f"kafka-clients-{version}", (f"org.apache.kafka:kafka-clients:{version}",))


@contextmanager
def running(version: str) -> Iterator[Peer]:
    """Run KafkaMessages with kafka-clients of `version`.

    Raise `LabUnavailable` if Java, Maven or the release is missing.
    """
    jars = release(version)
    path = classpath(jars, compiled(jars, _SOURCE))
    command = ["java", *_OPTIONS, "-cp", path, _SOURCE.stem]
    with (
        tempfile.TemporaryFile() as log,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log) as process,
    ):
        yield Peer(process, log)


class Peer:
    """One running KafkaMessages: blocks go to its standard input, what it logs is shown if it ends."""

    def __init__(self, process: subprocess.Popen[bytes], log: IO[bytes]) -> None:
        self._process = process
        self._log = log

    def catalogue(self) -> dict[str, Any]:
        """Return what the release knows: see `catalogue` in KafkaMessages.java."""
        return json.loads(self._ask(b"\0\0"))

    def read(self, class_name: str, version: int, messages: Sequence[bytes]) -> list[Reading]:
        """Have a class read messages and write them again; return one reading for each."""
        name = class_name.encode()
        block = [len(name).to_bytes(2, "big"), name, version.to_bytes(2, "big")]
        for message in messages:
            block += (_SIZE.pack(len(message)), message)
        readings = list(_readings(self._ask(b"".join(block))))
        assert len(readings) == len(messages)
        return readings

    def _ask(self, block: bytes) -> bytes:
        pipe_in, pipe_out = self._process.stdin, self._process.stdout
        assert pipe_in
        assert pipe_out
        pipe_in.write(_SIZE.pack(len(block)) + block)
        pipe_in.flush()
        head = pipe_out.read(4)
        if len(head) < 4:
            self._process.wait()
            self._log.seek(0)
            raise RuntimeError(f"{_SOURCE.stem} ended:\n{self._log.read()[-2000:].decode()}")
        return pipe_out.read(_SIZE.unpack(head)[0])


def _readings(answer: bytes) -> Iterator[Reading]:
    offset = 0

    def take(size: int) -> bytes:
        nonlocal offset
        offset += size
        return answer[offset - size : offset]

    def block() -> bytes:
        return take(_SIZE.unpack(take(4))[0])

    while offset < len(answer):
        if take(1) == b"\0":
            yield Reading(block().decode())
            continue
        consumed, values = _SIZE.unpack(take(4))[0], block().decode()
        if take(1) == b"\0":
            yield Reading(None, consumed, values, unwritten=block().decode())
        else:
            yield Reading(None, consumed, values, block())
