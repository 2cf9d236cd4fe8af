"""A ring of capture files that is made of a stream: standard input, or what tcpdump writes.

A thread reads the stream and divides it at packet boundaries into files of a second each, or shorter
ones. A file gets its name when it is complete, so it is closed as soon as it is seen. Files that the watch
has read are removed at once, or after `keep_seconds`, for a slice of the last minute.

The ring holds at most `most_bytes`. Files that were read go first when there is no room. If the analysis is
that far behind, a stream that can wait waits. Packets that cannot wait, as those of an interface, are skipped
and counted.
"""

import os
import select
import threading
import time
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from kdissect.capture.formats.file_types import InputError
from kdissect.live.packet_stream import PacketStream

READ_BYTES = 1 << 20
FILE_SECONDS = 1.0
FILE_BYTES = 64 << 20
RING_BYTES = 1 << 30
WAIT_SECONDS = 0.05
FILE_NAME = "ring-{:08}.pcap"


def ring_number(path: str) -> int:
    """Return the number of a file of a ring, from 0."""
    return int(Path(path).stem.rpartition("-")[2])


class KeptFile(NamedTuple):
    """A file that was read."""

    path: str
    size: int
    read_s: float
    """When that was, on the monotonic clock."""


class OwnRing:
    """See the module's text. `interrupt` is a descriptor that ends the stream when it can be read."""

    def __init__(
        self,
        stream: int,
        folder: Path,
        name: str,
        *,
        waits: bool,
        interrupt: int | None = None,
        most_bytes: int = RING_BYTES,
        file_seconds: float = FILE_SECONDS,
    ) -> None:
        self._stream, self._folder, self._waits, self._most_bytes = stream, folder, waits, most_bytes
        self._file_seconds = file_seconds
        self._packets = PacketStream(name)
        self.keep_seconds = 0.0
        self._sizes: dict[str, int] = {}  # of files that are not accounted for, by path
        self._held = 0
        self._kept: deque[KeptFile] = deque()  # the oldest first
        self._kept_bytes = 0
        self._lock = threading.Lock()
        self._file: list[bytes] = []  # what the next file consists of
        self._file_bytes = 0
        self._began_s = 0.0
        self._number = 0
        self.skipped = 0  # packets
        self.failure: InputError | OSError | None = None  # why the stream cannot be read any further
        self._end, self._alarm = os.pipe()
        self._stops = [self._end, *([] if interrupt is None else [interrupt])]
        self._thread = threading.Thread(target=self._run, name="own-ring", daemon=True)
        self._thread.start()

    @property
    def has_ended(self) -> bool:
        """Return whether the stream is over, and all of it lies in files."""
        return not self._thread.is_alive()

    def free(self, paths: Iterable[str]) -> None:
        """Remove files that are accounted for, or keep them for `keep_seconds`."""
        now_s = time.monotonic()
        with self._lock:
            for path in paths:
                size = self._sizes.pop(path, 0)
                self._held -= size
                if size:
                    self._kept.append(KeptFile(path, size, now_s))
                    self._kept_bytes += size
            while self._kept and now_s - self._kept[0].read_s >= self.keep_seconds:
                self._remove_oldest()

    def close(self) -> None:
        """End the reading; what has come is in files."""
        os.write(self._alarm, b"!")
        self._thread.join()
        os.close(self._alarm)
        os.close(self._end)

    def _run(self) -> None:
        try:
            while self._read():
                if self._file and self._is_due():
                    self._write_file()
        except (InputError, OSError) as error:
            self.failure = error
        try:
            self._write_file()
        except OSError as error:
            self.failure = self.failure or error

    def _read(self) -> bool:
        """Read what there is, or wait for it for a while. Return False at the end."""
        if self._waits and self._is_full():
            ready, _, _ = select.select(self._stops, [], [], WAIT_SECONDS)
            return not ready
        ready, _, _ = select.select([self._stream, *self._stops], [], [], self._file_seconds)
        if any(stop in ready for stop in self._stops):
            return False
        if not ready:
            return True
        data = os.read(self._stream, READ_BYTES)
        if not data:
            return False
        before = self._packets.packets
        header = self._packets.header()  # of the section in which these bytes begin
        try:
            self._packets.feed(data)
        finally:
            if self._packets.begins_with_section:
                header = b""
            elif not header:
                header = self._packets.header()
            self._add(header, self._packets.take(), self._packets.packets - before)
        return True

    def _add(self, header: bytes, records: bytes, packets: int) -> None:
        if not self._waits and self._is_full():
            self.skipped += packets
        elif records:
            if not self._file:
                self._began_s = time.monotonic()
                self._file.append(header)
            self._append(records)

    def _append(self, records: bytes) -> None:
        self._file.append(records)
        self._file_bytes += len(records)

    def _is_due(self) -> bool:
        return time.monotonic() - self._began_s >= self._file_seconds or self._file_bytes >= FILE_BYTES

    def _is_full(self) -> bool:
        with self._lock:
            used = self._held + self._file_bytes
            while self._kept and used + self._kept_bytes >= self._most_bytes:
                self._remove_oldest()
        return used >= self._most_bytes

    def _remove_oldest(self) -> None:
        oldest = self._kept.popleft()
        self._kept_bytes -= oldest.size
        Path(oldest.path).unlink(missing_ok=True)

    def _write_file(self) -> None:
        if not self._file:
            return
        path = self._folder / FILE_NAME.format(self._number)
        part = path.with_name(f".{path.name}")
        with part.open("wb") as file:
            file.writelines(self._file)
        with self._lock:
            self._sizes[str(path)] = self._file_bytes
            self._held += self._file_bytes
        part.rename(path)
        self._number += 1
        self._file, self._file_bytes = [], 0
