"""Produced records, read from captures without kdissect: by dpkt, by hand and by kafka-python."""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kafka.record import MemoryRecords

from tests.helpers.conversations import CAPTURES, _conversations, frames

PRODUCE = 0


class Sent(NamedTuple):
    """One record as its producer sent it."""

    partition: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    timestamp: int


class _Reader:
    def __init__(self, data: bytes, at: int) -> None:
        self.data, self.at = data, at

    def take(self, layout: str) -> int:
        (value,) = struct.unpack_from(layout, self.data, self.at)
        self.at += struct.calcsize(layout)
        return int(value)

    def bytes(self, size: int) -> bytes:
        self.at += max(size, 0)
        return self.data[self.at - max(size, 0) : self.at]

    def uvarint(self) -> int:
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value


def _client_of(frame: bytes) -> str:
    reader = _Reader(frame, 8)
    return reader.bytes(reader.take(">h")).decode()


def _records_of(frame: bytes) -> Iterator[tuple[int, bytes]]:
    """Return (partition, records) of a Produce request, header first."""
    reader = _Reader(frame, 0)
    version = (reader.take(">h"), reader.take(">h"))[1]
    reader.take(">i")
    reader.bytes(reader.take(">h"))
    flexible = version >= 9

    def text() -> None:
        reader.bytes(reader.uvarint() - 1 if flexible else reader.take(">h"))

    def count() -> int:
        return reader.uvarint() - 1 if flexible else reader.take(">i")

    if flexible:
        assert reader.uvarint() == 0
    if version >= 3:
        text()
    reader.take(">h")
    reader.take(">i")
    for _ in range(count()):
        reader.bytes(16) if version >= 13 else text()
        for _ in range(count()):
            partition = reader.take(">i")
            yield partition, reader.bytes(reader.uvarint() - 1 if flexible else reader.take(">i"))
            assert not flexible or reader.uvarint() == 0
        assert not flexible or reader.uvarint() == 0


def produced(name: str) -> list[tuple[str, Sent]]:
    """Return (client, record) of every Produce request in a capture, in the order of their last packets."""
    found: list[tuple[int, int, str, list[Sent]]] = []
    for number, packets in enumerate(_conversations(Path(CAPTURES) / name)):
        stream, times = bytearray(), []
        for time_ns, side, payload in packets:
            if side == 0:
                stream.extend(payload)
                times.append((len(stream), time_ns))
        for start, stop in frames(bytes(stream)):
            frame = bytes(stream[start + 4 : stop])
            if stop > len(stream) or struct.unpack_from(">h", frame)[0] != PRODUCE:
                continue
            ended = next(time_ns for end, time_ns in times if end >= stop)
            found.append((ended, number, _client_of(frame), list(_sent(frame))))
    found.sort(key=lambda each: each[:2])
    return [(client, sent) for _, _, client, records in found for sent in records]


def _sent(frame: bytes) -> Iterator[Sent]:
    for partition, data in _records_of(frame):
        records = MemoryRecords(data)
        while (batch := records.next_batch()) is not None:
            for record in batch:
                headers = tuple((key, value) for key, value in record.headers or ())
                timestamp = -1 if record.timestamp is None else record.timestamp  # magic 0 has none
                yield Sent(partition, record.key, record.value, headers, timestamp)


def by_writer(records: list[tuple[str, Sent]]) -> dict[tuple[str, int], list[Sent]]:
    """Sort records by the client that wrote them and partition; of repeats keep the first."""
    found: dict[tuple[str, int], list[Sent]] = {}
    seen: set[tuple[str, int, bytes | None, bytes | None]] = set()
    for client, record in records:
        if (client, record.partition, record.key, record.value) not in seen:
            seen.add((client, record.partition, record.key, record.value))
            found.setdefault((client, record.partition), []).append(record)
    return found


def writer_of(key: bytes | None) -> str:
    """Name the client of the lab that wrote a key: its keys are `client-number`."""
    return (key or b"").decode().rpartition("-")[0]
