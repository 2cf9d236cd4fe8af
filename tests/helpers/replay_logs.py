"""Replay logs made without Spark, by the functions that its tasks run."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from kdissect.capture.flow_table import FlowTable
from kdissect.capture.index.index import index_captures
from kdissect.capture.inputs import open_inputs
from kdissect.capture.scan import scan_split
from kdissect.replay.load.log_files import CapturedFile, LogFacts
from kdissect.replay.load.log_merge import merge_parts
from kdissect.replay.load.log_part import PART, log_step
from kdissect.streams.tls.keylog import keys_for


def make_log(
    paths: Sequence[str], folder: Path, partitions: int = 3, split_bytes: int = 1 << 20, keep: bool = True
) -> LogFacts:
    """Write a log, with the connections in so many partitions. Without `keep` every frame is copied."""
    folder.mkdir(parents=True)
    inputs = open_inputs(list(paths), str(folder))
    index = index_captures(inputs.files, split_bytes)
    flows = FlowTable(())
    pieces = [scan_split(split, gathering=flows) for split in index.splits]
    captures, known = [], dict[str, int]()
    for number, each in enumerate(index.files):
        found = os.stat(each.file.path)
        captures.append(CapturedFile(each.file.name, each.file.path, found.st_size, found.st_mtime_ns))
        if keep:
            known[each.file.path] = number
    parts: list[dict[str, Any]] = []
    for partition in range(partitions):
        mine = [
            rows.filter(pa.array(np.asarray(rows["bucket"]) % partitions == partition)) for rows in pieces
        ]
        (facts,) = log_step(mine, index.splits, keys_for(None, index.files), known, str(folder))
        parts += map(json.loads, facts[PART].to_pylist())
    made = LogFacts(captures, index.earliest_time_ns or 0, index.latest_time_ns or 0, list(index.warnings))
    merge_parts(folder, parts, made)
    return made
