"""A wire for tests: say what two hosts send, get the splits and pieces that pass one would make of it.

Segments are given with stream positions instead of sequence numbers; `Wire` keeps a payload file and turns
them into packed descriptors, cut into as many splits as wanted.
"""

import itertools
import struct
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from kdissect.capture.index.splits import (
    CaptureFormat,
    Interface,
    Split,
)
from kdissect.capture.segment_index import (
    FLAG_ACK,
    FLAG_B_TO_A,
    FLAG_FIN,
    FLAG_RST,
    FLAG_SYN,
    PACKET,
    PIECES,
    pack,
)

CLIENT, SERVER = 0, 1
MS = 1_000_000


def request(
    key: int, version: int, correlation: int, body: bytes = b"", client: bytes | None = b"tester"
) -> bytes:
    """A request frame with header version 1, length prefix included."""
    text = struct.pack(">h", -1) if client is None else struct.pack(">h", len(client)) + client
    return frame(struct.pack(">hhi", key, version, correlation) + text + body)


def response(correlation: int, body: bytes = b"") -> bytes:
    """A response frame with header version 0, length prefix included."""
    return frame(struct.pack(">i", correlation) + body)


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


@dataclass
class Wire:
    """The packets of one connection, in capture order; A (port 1000) is the client unless `server_is_a`."""

    path: Path
    server_is_a: bool = False
    packets: list[tuple[int, int, int, int, bytes, int, int]] = field(default_factory=list)
    isn: tuple[int, int] = (0xFFFFFF00, 1000)  # the client's sequence numbers wrap early
    sent: dict[int, int] = field(default_factory=lambda: {CLIENT: 0, SERVER: 0})
    now_ns: int = 1_700_000_000_000_000_000

    def open(self) -> "Wire":
        self._add(CLIENT, -1, b"", FLAG_SYN)
        self.accept()
        self._add(CLIENT, 0, b"", FLAG_ACK | 32)
        return self

    def accept(self) -> "Wire":
        """The server's SYN-ACK, before what it sends next."""
        return self.flagged(SERVER, FLAG_SYN | FLAG_ACK)

    def flagged(self, side: int, flags: int) -> "Wire":
        """A segment of a side without payload; a SYN takes the sequence number before what is sent next."""
        self._add(side, self.sent[side] - (1 if flags & FLAG_SYN else 0), b"", flags)
        return self

    def send(self, side: int, payload: bytes, *, after_ms: float = 1, missing: int = 0) -> "Wire":
        """The side sends payload next in order, in one segment; `missing` bytes of it were cut off by the
        capture."""
        self.packet(side, self.sent[side], payload, after_ms=after_ms, missing=missing)
        self.sent[side] += len(payload) + missing
        return self

    def packet(
        self, side: int, position: int, payload: bytes, *, after_ms: float = 1, missing: int = 0
    ) -> "Wire":
        """A segment at any stream position: a retransmission, an early one, an overlap."""
        self.now_ns += int(after_ms * MS)
        self._add(side, position, payload, FLAG_ACK, missing)
        return self

    def lose(self, side: int, count: int) -> "Wire":
        """The side sends bytes that the capture does not have."""
        self.sent[side] += count
        return self

    def close(self) -> "Wire":
        self._add(CLIENT, self.sent[CLIENT], b"", FLAG_FIN | FLAG_ACK)
        self._add(SERVER, self.sent[SERVER], b"", FLAG_FIN | FLAG_ACK)
        return self

    def reset(self) -> "Wire":
        self._add(SERVER, self.sent[SERVER], b"", FLAG_RST)
        return self

    def _add(self, side: int, position: int, payload: bytes, flags: int, missing: int = 0) -> None:
        way = (side == CLIENT) == self.server_is_a
        seq = (self.isn[side] + 1 + position) & 0xFFFFFFFF
        ack = (self.isn[1 - side] + 1 + self.sent[1 - side]) & 0xFFFFFFFF if flags & FLAG_ACK else 0
        self.packets.append(
            (self.now_ns, seq, ack, missing, payload, flags | (FLAG_B_TO_A if way else 0), side)
        )

    def splits(self, count: int = 1, first_index: int = 0) -> tuple[list[Split], list[pa.RecordBatch]]:
        """Write the payload and cut the packets into `count` splits of about the same number of packets."""
        offset = 0
        columns = np.zeros((8, len(self.packets)), np.int64)
        with self.path.open("wb") as file:
            for number, (time, seq, ack, missing, payload, flags, _) in enumerate(self.packets):
                columns[:, number] = (time, number + 1, offset, len(payload), missing, seq, ack, flags)
                file.write(payload)
                offset += len(payload)
        edges = np.linspace(0, len(self.packets), count + 1).astype(int)
        splits, pieces = [], []
        columns[PACKET] -= np.repeat(edges[:-1] + 1, np.diff(edges))  # counted in each split
        for index, (first, stop) in enumerate(itertools.pairwise(edges), first_index):
            splits.append(
                Split(index, str(self.path), self.path.name, 0, offset, int(first) + 1, int(stop - first),
                      CaptureFormat.PCAP, False, 16, (Interface(1, 0),), 0)
            )  # fmt: skip
            if stop > first:
                pieces.append(self._piece(index, np.ascontiguousarray(columns[:, first:stop])))
        return splits, pieces

    def _piece(self, split: int, columns: np.ndarray) -> pa.RecordBatch:
        row = {
            "bucket": 1,
            "split": split,
            "piece": 0,
            "a_host": bytes(10) + b"\xff\xff\x7f\0\0\1",
            "a_port": 1000,
            "b_host": bytes(10) + b"\xff\xff\x7f\0\0\2",
            "b_port": 9092,
            "packets_ab": int((columns[7] & 1 == 0).sum()),
            "packets_ba": int((columns[7] & 1 == 1).sum()),
            "zero_windows": 0,
            "duplicates": 0,
            "first_time_ns": int(columns[0, 0]),
            "last_time_ns": int(columns[0, -1]),
            "count": columns.shape[1],
            "segments": pack(columns),
        }
        return pa.RecordBatch.from_pylist([row], schema=PIECES)
