"""Result of the capture front for files, in a form that can be compared: descriptors, packets and counts.

As a program it prints that for the files named on the command line, so that the same can be asked of another
process.
"""

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from kdissect.capture.index.index import index_captures
from kdissect.capture.inputs import CaptureFile
from kdissect.capture.scan import scan_split
from kdissect.capture.segment_index import (
    FLAG_ACK_ONLY,
    FLAG_BARE_ACK,
    FLAGS,
    PACKET,
    Counts,
    unpack,
    unpack_counts,
)

ENDPOINTS = ("a_host", "a_port", "b_host", "b_port")


def descriptors(batch: pa.RecordBatch, first_packet: int = 1) -> list[list[list[int]]]:
    """Return the descriptors of every row of pieces, with the numbers of packets in their file."""
    blobs, counts = batch.column("segments"), batch.column("count").to_numpy()
    found = [unpack(blobs[i : i + 1], counts[i : i + 1]) for i in range(len(counts))]
    for one in found:
        one[PACKET] += first_packet
    return [one.T.tolist() for one in found]


def outcome(path: Path, ports: Iterable[int] = (), bare: bool = True, **options: int) -> dict[str, Any]:
    """Return what becomes of a file, put together over its splits.

    Without `bare`, bare acknowledgements are left out: every split has a first one of its own. `options` are
    split_bytes, range_bytes, chunk_bytes and row_segments.
    """
    found = index_captures(
        [CaptureFile(str(path), path.name)],
        **{name: options[name] for name in ("split_bytes", "chunk_bytes", "range_bytes") if name in options},
    )
    reading = {name: options[name] for name in ("chunk_bytes", "row_segments") if name in options}
    connections: dict[str, list[list[int]]] = {}
    packets: dict[str, list[int]] = {}
    counts = np.zeros(len(Counts._fields), dtype=np.int64)
    for split in found.splits:
        batch = scan_split(split, ports, **reading)
        rows = batch.to_pylist()
        counts += unpack_counts(rows[-1]["segments"])
        for row, described in zip(
            rows[:-1], descriptors(batch.slice(0, len(rows) - 1), split.first_packet), strict=True
        ):
            who = " ".join(
                str(row[name].hex() if isinstance(row[name], bytes) else row[name]) for name in ENDPOINTS
            )
            kept = [one for one in described if bare or not one[FLAGS] & (FLAG_BARE_ACK | FLAG_ACK_ONLY)]
            connections.setdefault(who, []).extend(kept)
            counted = packets.setdefault(who, [row["bucket"], 0, 0, 0])
            for i, name in enumerate(("packets_ab", "packets_ba", "zero_windows"), 1):
                counted[i] += row[name]
    file = found.files[0]
    return {
        "packets": file.packets,
        "times": [file.earliest_time_ns, file.latest_time_ns],
        "warnings": list(file.warnings),
        "counts": counts.tolist(),
        "connections": connections,
        "counted": packets,
    }


if __name__ == "__main__":
    print(json.dumps([outcome(Path(name), split_bytes=5000) for name in sys.argv[1:]]))
