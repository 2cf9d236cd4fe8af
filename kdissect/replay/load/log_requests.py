"""The requests of a replay log, as `load.requests` returns those of captures.

Frames stay where they lie: the spool is given the files, and reads them by position. Filters by header are
applied to the columns, and those by messages to one request of each shape.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from kdissect.array_types import Int32s
from kdissect.exchanges.exchange import CapturedFrame, Exchange
from kdissect.exchanges.filter import ExchangeFilter
from kdissect.jit.rows import Records, dtype_of
from kdissect.replay.load.log_files import NOWHERE, REQUESTS, ROWS, LogFacts, open_log
from kdissect.replay.load.logged_shapes import LoggedShapes
from kdissect.replay.load.request_shapes import NO_SHAPE
from kdissect.replay.load.request_table import NONE, ROWS_AT_ONCE, Request, RequestTable, numbered
from kdissect.replay.load.requests import Capture, refuse_unread_tls
from kdissect.replay.load.selection import OPTIONS, RequestSelection
from kdissect.replay.load.spool import Spool, SpoolSlot
from kdissect.replay.settings import everything
from kdissect.streams.flow_state import BEFORE_VERSIONS, STATUS_NAMES, ExchangeRow

COPIED = (
    "connection",
    "ordinal",
    "key",
    "status",
    "first_ns",
    "last_ns",
    "answered_ns",
    "in_flight",
    "complete",
    "response_complete",
)
"""The columns of a log that a `RequestTable` has as they are; UNKNOWN_NS is its NONE."""


class LoggedConnections:
    """The connections of a log, by their public numbers, as filters ask for them."""

    def __init__(self, facts: LogFacts) -> None:
        self._ends = {int(number): (ends[0], ends[1]) for number, ends in facts.connections.items()}
        self.nodes = {
            int(node): frozenset((host, port) for host, port in ends) for node, ends in facts.nodes.items()
        }

    def identity(self, connection: int) -> int:
        """Return the public number of a connection."""
        return connection

    def addresses(self, connection: int) -> tuple[str, str]:
        """Return the addresses of client and server of a connection."""
        return self._ends[connection]


def read_log(
    folder: Path,
    spool: Spool,
    wanted: Callable[[int], ExchangeFilter] = everything,
    topic_names: Mapping[bytes, str] | None = None,
    progress: Callable[[int], None] = lambda _requests: None,
) -> Capture:
    """Return all requests of a log, in time order, each marked with the filter that excludes it.

    Raise UsageError for a log that cannot be used (see `open_log`).
    """
    facts = open_log(folder)
    names = {bytes.fromhex(identity): name for identity, name in facts.topics.items()}
    requests = RequestTable()
    capture = Capture(
        requests=requests,
        files=tuple(each.name for each in facts.captures),
        names=dict(topic_names or {}) | names,
        warnings=facts.warnings,
        earliest_ns=facts.earliest_ns,
        latest_ns=facts.latest_ns,
        orphans=facts.orphans,
        servers={server for _, server, _ in facts.connections.values()},
        clients={int(number): client for number, (client, _, _) in facts.connections.items()},
        headless={int(number) for number, (_, _, begins) in facts.connections.items() if not begins},
    )
    connections = LoggedConnections(facts)
    selection = RequestSelection(wanted(capture.earliest_ns), capture.names)
    bases = [spool.attach(each.path) if each.path else 0 for each in facts.captures]
    bases += [spool.attach(str(folder / name)) for name in facts.frames]
    capture.logged = _read_columns(folder, bases, connections, requests, selection, progress)
    if selection.reads_messages:
        _exclude_by_messages(requests, capture.logged.shapes, selection, spool)
    capture.unmatched = selection.unmatched(capture.earliest_ns, capture.latest_ns)
    if not selection.selects_all:
        capture.logged = _apart(capture.logged, requests.column("excluded_by"))
    refuse_unread_tls(capture, facts.unread_tls)
    return capture


def _read_columns(
    folder: Path,
    bases: list[int],
    connections: LoggedConnections,
    requests: RequestTable,
    selection: RequestSelection,
    progress: Callable[[int], None],
) -> LoggedShapes:
    """Read all requests into a table, column by column, and apply filters by header. Return their shapes."""
    shapes = bytearray()  # which grows without a second copy
    places = np.array([*bases, 0], np.int64)  # the last one is for NOWHERE
    rows = pq.ParquetFile(folder / ROWS, pre_buffer=False)  # which would be the whole file at once
    for batch in rows.iter_batches(
        ROWS_AT_ONCE, columns=[name for name in REQUESTS.names if name != "facts"]
    ):
        columns = {name: batch[name].to_numpy(zero_copy_only=False) for name in COPIED}
        numbers, row = np.unique(columns["connection"], return_inverse=True)
        columns["server"] = row
        version, answered = batch["version"].to_numpy(), batch["response_file"].to_numpy() != NOWHERE
        columns["version"] = np.where(version == BEFORE_VERSIONS, NONE, version)
        columns["in_flight"] = np.maximum(columns["in_flight"], 1)
        for name, prefix in (("frame", "request"), ("response", "response")):
            offset, file = (batch[f"{prefix}_{each}"].to_numpy() for each in ("offset", "file"))
            there = file != NOWHERE
            columns[f"{name}_at"] = np.where(there, places[file] + offset, NONE)
            columns[f"{name}_size"] = np.where(there, batch[f"{prefix}_size"].to_numpy(), 0)
        columns["response_complete"] = columns["response_complete"] & answered
        raw = columns | {"version": version}
        options = selection.header_options(_headers(raw, answered), connections)
        servers = [connections.addresses(number)[1] for number in numbers.tolist()]
        begin = len(requests)
        requests.extend(columns, servers, STATUS_NAMES)
        for option in np.unique(options[options > 0]).tolist():
            requests.exclude(begin + np.flatnonzero(options == option), OPTIONS[option])
        shapes += batch["shape"].to_numpy().astype(np.int32).tobytes()
        progress(len(requests))
    return LoggedShapes(np.frombuffer(shapes, np.int32), rows)


def _headers(columns: Mapping[str, NDArray[Any]], answered: NDArray[np.bool_]) -> Records:
    """Return requests as rows of `flow_state.ExchangeRow`, as far as filters by header look at them."""
    rows = np.zeros(len(answered), dtype_of(ExchangeRow))
    for name, column in (("connection", "connection"), ("status", "status"), ("api_key", "key")):
        rows[name] = columns[column]
    rows["api_version"] = columns["version"]
    rows["request"]["start"], rows["response"]["start"] = 1, answered
    rows["request"]["first_byte_ns"], rows["request"]["last_byte_ns"] = (
        columns["first_ns"],
        columns["last_ns"],
    )
    rows["response"]["first_byte_ns"] = columns["answered_ns"]
    return rows


def _exclude_by_messages(
    requests: RequestTable, shapes: Int32s, selection: RequestSelection, spool: Spool
) -> None:
    """Mark the requests that a filter excludes for what their messages tell.

    Messages of one shape have the same names and errors, so the first of each is decoded for all.
    """
    left = np.flatnonzero(requests.included())
    order = left[np.argsort(shapes[left], kind="stable")]
    own = shapes[order]
    begins = np.flatnonzero(np.append(True, (own[1:] != own[:-1]) | (own[1:] == NO_SHAPE))[: len(own)])
    for alike in np.split(order, begins[1:]):
        if len(alike):
            option = selection.excluded_by_messages(_exchange(requests[int(alike[0])], spool))
            if option:
                requests.exclude(alike, option)


def _apart(logged: LoggedShapes, excluded_by: NDArray[np.uint8]) -> LoggedShapes:
    """Return the shapes, divided by the option that excludes a request: it decides what the load learns."""
    pairs = logged.shapes * np.int32(len(OPTIONS)) + excluded_by
    _, numbers = numbered(pairs)
    numbers[logged.shapes == NO_SHAPE] = NO_SHAPE
    return replace(logged, shapes=numbers)


def _exchange(request: Request, spool: Spool) -> Exchange:
    """Return a request with its response as filters look at them."""

    def frame(slot: SpoolSlot, complete: bool, first_ns: int, last_ns: int | None) -> CapturedFrame:
        data = spool.get(slot) or b""
        return CapturedFrame(data, len(data) if complete else len(data) + 1, first_ns, last_ns, 0)

    response = None
    if request.response is not None and request.answered_ns is not None:
        response = frame(request.response, request.response_complete, request.answered_ns, None)
    return Exchange(
        connection=request.connection,
        ordinal=request.ordinal,
        status=request.status,
        api_key=request.key,
        api_version=request.version,
        correlation_id=None,
        in_flight=request.in_flight,
        request=frame(request.frame, request.complete, request.first_ns, request.last_ns),
        response=response,
        is_kafka07=request.version is None,
    )
