"""The part of a replay log that one task of Spark writes: the requests of some connections.

In: the pieces of these connections, complete and ordered by split. Out: Parquet files of REQUESTS, each
sorted, a file of frames that lie in no capture in one piece, and the facts that the merge needs, as JSON in a
batch of one row. Each part has a name of its own, so what a task that was repeated has left is never read.
"""

import json
import mmap
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from kdissect.array_types import Int64s
from kdissect.capture.index.splits import Split
from kdissect.exchanges.prescan import CollectedFacts, new_processor
from kdissect.jit.rows import Records, array_of
from kdissect.replay.load.frame_places import NO_PLACE, FramePlaces, equal_bytes
from kdissect.replay.load.log_files import FRAMES, NOWHERE, ORDER, REQUESTS, UNKNOWN_NS
from kdissect.replay.load.request_shapes import RequestShapes, ShapedBatch, fact_lists
from kdissect.streams.engine import ExchangeBatch
from kdissect.streams.flow_state import ORPHAN_RESPONSE, PACKET_BITS, SASL_TOKEN, TLS, TLS_PASSED
from kdissect.streams.processor import FlowProcessor
from kdissect.streams.tls.keylog import KeyLog
from kdissect.tables.build import by_split
from kdissect.text import format_address, format_ip

RUN_ROWS = 1 << 16  # that are sorted together
OWN_FRAMES = -2  # as the file of a frame: the frames of this part
PART = "part"
"""The column with the facts of a part."""


def log_step(
    batches: Iterable[pa.RecordBatch],
    splits: Sequence[Split],
    keys: KeyLog,
    captures: Mapping[str, int],
    folder: str,
    salt: bytes = b"",
) -> Iterator[pa.RecordBatch]:
    """Write the part of some connections to a folder. Yield its facts.

    `captures` are the numbers of the capture files that frames may be left in, by path. `keys` decrypt TLS.
    `salt` is a secret that all parts of a log have in common (see `request_shapes`).
    """
    processor = new_processor(splits, keys)
    with ExitStack() as stack:
        part = _PartWriter(Path(folder), processor, splits, captures, salt, stack)
        for pieces in by_split(batches):
            places = FramePlaces(pieces, splits)
            for batch in processor.feed(pieces):
                part.add(batch, places)
        for batch in processor.close():
            part.add(batch, None)
        yield pa.record_batch({PART: [json.dumps(part.finish())]})


class _PartWriter:
    """Collects the rows of a part, and writes its frames as they come."""

    def __init__(
        self,
        folder: Path,
        processor: FlowProcessor,
        splits: Sequence[Split],
        captures: Mapping[str, int],
        salt: bytes,
        stack: ExitStack,
    ) -> None:
        self._name = f"{PART}-{secrets.token_hex(8)}"
        self._folder, self._processor, self._splits, self._stack = folder, processor, splits, stack
        self._files = [captures.get(split.path, NOWHERE) for split in splits]
        self._maps: dict[int, mmap.mmap] = {}  # number of a capture -> its bytes
        self._frames = stack.enter_context((folder / (self._name + FRAMES)).open("wb"))
        self._position = 0  # in the file of frames
        self._facts = CollectedFacts()
        self._columns: list[dict[str, NDArray[Any]]] = []
        self._shapes, self._shaped = RequestShapes(salt), list[ShapedBatch]()
        self._rows = 0  # in these columns
        self._runs: list[str] = []  # names of the files with rows
        self._firsts: dict[int, tuple[int, ...]] = {}  # connection -> ORDER of its first request
        self._requests = self._orphans = 0

    def add(self, batch: ExchangeBatch, places: FramePlaces | None) -> None:
        """Add the requests of a batch; `places` has the packets of the split that has just been read."""
        self._facts.add(batch, self._processor.endpoints.identity)
        status = batch.exchanges["status"]
        self._orphans += int((status == ORPHAN_RESPONSE).sum())
        rows = batch.exchanges[(status != ORPHAN_RESPONSE) & (status != SASL_TOKEN)]
        if not len(rows):
            return
        identities = self._processor.identities
        request, response = rows["request"], rows["response"]
        answered = response["start"] > 0
        from_b = array_of(self._processor.state.connections)["client_side"][rows["connection"]] == 1
        found = [
            self._placed(batch, frames, 2 * rows["connection"] + (from_b ^ is_response), places)
            for frames, is_response in ((request, False), (response, True))
        ]
        columns = {
            "first_ns": request["first_byte_ns"],
            "packet": request["packet"],
            "connection": identities[rows["connection"]],
            "ordinal": rows["ordinal"],
            "key": rows["api_key"],
            "version": rows["api_version"],
            "status": rows["status"],
            "last_ns": np.maximum(request["last_byte_ns"], UNKNOWN_NS),
            "answered_ns": np.where(answered, response["first_byte_ns"], UNKNOWN_NS),
            "in_flight": rows["in_flight"],
            "complete": request["stop"] == request["frame_stop"],
            "response_complete": answered & (response["stop"] == response["frame_stop"]),
        }
        for name, frames, (files, offsets) in zip(
            ("request", "response"), (request, response), found, strict=True
        ):
            columns |= {
                f"{name}_file": files,
                f"{name}_offset": offsets,
                f"{name}_size": frames["stop"] - frames["start"],
            }
        shaped = self._shapes.of(batch._replace(exchanges=rows))
        columns["shape"] = shaped.shapes
        self._shaped.append(shaped)
        self._columns.append({name: np.ascontiguousarray(values) for name, values in columns.items()})
        self._rows += len(rows)
        if self._rows >= RUN_ROWS:
            self._write_run()

    def _placed(
        self, batch: ExchangeBatch, frames: Records, directions: Int64s, places: FramePlaces | None
    ) -> tuple[Int64s, Int64s]:
        """Return file and offset of each frame, written to the part's own file where no capture has it."""
        files, offsets = np.full(len(frames), NOWHERE, np.int64), np.zeros(len(frames), np.int64)
        if places is None:
            in_capture = np.full(len(frames), NO_PLACE, np.int64)
        else:
            first = array_of(self._processor.state.directions)["first_sequence"][directions]
            in_capture = places.offsets(frames, first)
        arena = np.ascontiguousarray(batch.arena)
        start = frames["start"].astype(np.int64)
        size = frames["stop"].astype(np.int64) - start
        there = start > 0
        split_files = np.array([*self._files, NOWHERE], np.int64)[frames["packet"] >> PACKET_BITS]
        split_files[~there | (in_capture == NO_PLACE)] = NOWHERE
        for file in np.unique(split_files[split_files != NOWHERE]).tolist():
            rows = np.flatnonzero(split_files == file)
            rows = rows[equal_bytes(arena, start[rows], self._map(file), in_capture[rows], size[rows])]
            files[rows], offsets[rows] = file, in_capture[rows]
            self._map(file).madvise(mmap.MADV_DONTNEED)  # else all of the capture would count as memory
        for row in np.flatnonzero(there & (files == NOWHERE)).tolist():
            files[row], offsets[row] = OWN_FRAMES, self._position
            self._position += self._frames.write(arena[start[row] : start[row] + size[row]].tobytes())
        return files, offsets

    def _map(self, file: int) -> mmap.mmap:
        known = self._maps.get(file)
        if known is None:
            path = next(split.path for split in self._splits if self._files[split.index] == file)
            with Path(path).open("rb") as opened:  # the mapping outlives it
                known = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
            self._maps[file] = self._stack.enter_context(known)
        return known

    def _write_run(self) -> None:
        """Write the rows so far, sorted, so that memory holds no more than one run."""
        rows = {
            name: np.concatenate([each[name] for each in self._columns])
            for name in REQUESTS.names
            if name != "facts"
        }
        order = np.lexsort([rows[name] for name in reversed(ORDER)])
        columns = [pa.array(rows[each.name][order]).cast(each.type) for each in REQUESTS if each.name in rows]
        facts = fact_lists(self._shaped).take(pa.array(order))
        table = pa.Table.from_arrays([*columns, facts], schema=REQUESTS)
        self._runs.append(f"{self._name}-{len(self._runs)}.parquet")
        pq.write_table(table, self._folder / self._runs[-1], compression="lz4")
        numbers, places = np.unique(rows["connection"][order], return_index=True)
        for number, place in zip(numbers.tolist(), order[places].tolist(), strict=True):
            first = tuple(int(rows[name][place]) for name in ORDER)
            self._firsts[number] = min(self._firsts.get(number, first), first)
        self._requests += table.num_rows
        self._rows = 0
        self._columns.clear()
        self._shaped.clear()

    def finish(self) -> dict[str, Any]:
        """Write the rows that are left, and return the facts of the part."""
        self._frames.flush()
        if self._columns:
            self._write_run()
        connections = self._connections()
        return {
            "name": self._name,
            "runs": self._runs,
            "requests": self._requests,
            "shapes": len(self._shapes),
            "frame_bytes": self._position,
            "orphans": self._orphans,
            "topics": {identity.hex(): name for identity, name in self._facts.names.items()},
            "nodes": {str(node): sorted(ends) for node, ends in self._facts.nodes.items()},
            "connections": connections,
            "unread_tls": self._unread_tls(connections),
        }

    def _connections(self) -> dict[str, tuple[str, str, bool]]:
        """Return client and server of each connection with requests, and whether its beginning is there."""
        known = array_of(self._processor.state.connections)
        found: dict[str, tuple[str, str, bool]] = {}
        for row, (identity, ends) in enumerate(
            zip(self._processor.identities.tolist(), self._processor.endpoints, strict=True)
        ):
            if identity in self._firsts:
                a = format_address(format_ip(ends.a_host), ends.a_port)
                b = format_address(format_ip(ends.b_host), ends.b_port)
                client, server = (b, a) if known["client_side"][row] == 1 else (a, b)
                begins = self._firsts[identity][-1] == 0 and bool(known["handshake"][row])
                found[str(identity)] = client, server, begins
        return found

    def _unread_tls(self, read: Mapping[str, object]) -> int:
        protocols = array_of(self._processor.state.connections)["protocol"][: len(self._processor.endpoints)]
        rows = np.isin(protocols, (TLS, TLS_PASSED)).nonzero()[0].tolist()
        return sum(str(self._processor.identities[row]) not in read for row in rows)
