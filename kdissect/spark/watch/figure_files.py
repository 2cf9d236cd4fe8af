"""The figures of a watch on disk: partials of its batches, from which `kdissect report` makes a report.

    <out>/_figures/00000003-00000014.arrow   what these batches have finished
    <out>/_figures/open-00000014.arrow       what was open after the last batch, as if captures ended there

A file is one Arrow IPC stream of rows of PARTIAL; its metadata say which version wrote it, which batches
and times it holds, on which grids it was counted, and the facts of the captures. Nothing in it is code. A
file whose range lies within that of another one is a leftover of compaction, and does not count.

Files are joined as they age (`figure_compaction`).
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from kdissect.errors import UserError
from kdissect.report.build.regrid import StepGrids
from kdissect.report.model.findings import Location
from kdissect.report.model.summary import AppliedFilter, CaptureFacts, CaptureGap
from kdissect.report.partials import ALL_TABLES, PARTIAL, Partial, from_arrow, to_arrow
from kdissect.report.timeline.grid import SIGNAL_STEPS, Grid, grid_over
from kdissect.spark.capture_facts import merge_facts
from kdissect.spark.watch.hour_writer import write_synced

FOLDER = "_figures"
FORMAT = 1
HEADER = b"kdissect figures"
NAME = re.compile(r"(\d{8,})-(\d{8,})\.arrow")
OPEN_NAME = re.compile(r"open-(\d{8,})\.arrow")
MINUTE_NS = 60_000_000_000
HOUR_NS = 60 * MINUTE_NS


class FiguresError(UserError):
    """Figures cannot be read; the message is one sentence."""


@dataclass(frozen=True, slots=True)
class FigureHeader:
    """Contents of a file of figures."""

    first_batch: int
    last_batch: int
    first_ns: int
    last_ns: int
    grids: StepGrids
    facts: CaptureFacts = CaptureFacts()  # noqa: RUF009 - frozen
    filters: tuple[AppliedFilter, ...] = ()

    @property
    def name(self) -> str:
        """The name of the file with what these batches have finished."""
        return range_name(self.first_batch, self.last_batch)


def range_name(first: int, last: int) -> str:
    """Return the name of the file with what batches have finished."""
    return f"{first:08}-{last:08}.arrow"


def open_name(batch: int) -> str:
    """Return the name of the file with what was open after a batch."""
    return f"open-{batch:08}.arrow"


def write_batch(folder: Path, header: FigureHeader, finished: Partial, unfinished: Partial) -> list[str]:
    """Write the two files of a batch below a folder. Return their paths. Raise OSError."""
    (folder / FOLDER).mkdir(exist_ok=True)
    names = [header.name, open_name(header.last_batch)]
    for name, partial in zip(names, (finished, unfinished), strict=True):
        write_synced(folder / FOLDER / name, to_bytes(header, partial))
    return [f"{FOLDER}/{name}" for name in names]


def to_bytes(header: FigureHeader, partial: Partial) -> bytes:
    """Return the contents of a file of figures."""
    batch = to_arrow(partial)
    fields = {**asdict(header), "grids": header.grids, "format": FORMAT}
    schema = batch.schema.with_metadata({HEADER: json.dumps(fields).encode()})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as stream:
        stream.write_batch(batch.replace_schema_metadata(schema.metadata))
    data: bytes = sink.getvalue().to_pybytes()
    return data


def read_header(source: bytes | BinaryIO, name: str) -> FigureHeader:
    """Return the header of a file, from its bytes or from where it is open.

    Raise FiguresError for another version or a damaged file.
    """
    try:
        with pa.ipc.open_stream(source) as stream:
            fields = json.loads((stream.schema.metadata or {})[HEADER])
        return _header(fields, name)
    except (pa.ArrowException, KeyError, ValueError, TypeError, OSError):
        raise FiguresError(f"{name} does not hold figures of a watch, or is damaged") from None


def _header(fields: dict[str, Any], name: str) -> FigureHeader:
    if fields.pop("format") != FORMAT:
        raise FiguresError(f"{name} was written by another version of kdissect")
    facts = fields.pop("facts")
    place = facts.pop("largest_clock_step")
    for text in ("files", "link_types", "warnings"):
        facts[text] = tuple(facts[text])
    facts["gaps"] = tuple(CaptureGap(**gap) for gap in facts.get("gaps", ()))
    signals, page = (Grid(*grid) for grid in fields.pop("grids"))
    filters = tuple(
        AppliedFilter(option=one["option"], values=tuple(one["values"])) for one in fields.pop("filters")
    )
    return FigureHeader(
        **fields,
        grids=StepGrids(signals, page),
        facts=CaptureFacts(**facts, largest_clock_step=Location(**place) if place else None),
        filters=filters,
    )


def read_partial(data: bytes, name: str) -> Partial:
    """Return the partial in a file. Raise FiguresError for a damaged one and one of another version."""
    try:
        with pa.ipc.open_stream(data) as stream:
            rows = stream.read_all()
        rows.validate(full=True)
        if not rows.schema.equals(PARTIAL):
            raise FiguresError(f"{name} was written by another version of kdissect")
        for part, blob in zip(rows["part"].to_pylist(), rows["rows"], strict=True):
            _check_table(part, blob.as_buffer(), name)
        return from_arrow(rows.to_batches())
    except (pa.ArrowException, OSError):
        raise FiguresError(f"{name} is damaged") from None


def _check_table(part: str, blob: pa.Buffer, name: str) -> None:
    with pa.ipc.open_stream(blob) as stream:
        if part not in ALL_TABLES or not stream.schema.equals(ALL_TABLES[part].schema):
            raise FiguresError(f"{name} was written by another version of kdissect")
        stream.read_all().validate(full=True)


def batches_of(names: Iterable[str]) -> list[tuple[int, int]]:
    """Return the ranges of batches that count among names of files, in order: none lies within another."""
    ranges = sorted(
        ((int(found[1]), int(found[2])) for name in names if (found := NAME.fullmatch(name))),
        key=lambda one: (one[0], -one[1]),
    )
    kept: list[tuple[int, int]] = []
    for one in ranges:
        if not kept or one[1] > kept[-1][1]:
            kept.append(one)
    return kept


def joined(headers: Sequence[FigureHeader]) -> FigureHeader:
    """Return the header of several ranges of batches in order; its grids are those of the first."""
    return replace(
        headers[0],
        last_batch=headers[-1].last_batch,
        first_ns=min(one.first_ns for one in headers),
        last_ns=max(one.last_ns for one in headers),
        facts=merge_facts([one.facts for one in headers]),
    )


def window_grids(headers: Sequence[FigureHeader], first_ns: int, last_ns: int) -> StepGrids:
    """Return the grids of a report on some files: the finest that all of them can be moved to."""
    signals = max(one.grids.signals.step_ns for one in headers)
    page = max(one.grids.page.step_ns for one in headers)
    return StepGrids(
        grid_over(first_ns, last_ns, SIGNAL_STEPS, signals), grid_over(first_ns, last_ns, shortest_ns=page)
    )
