"""Columns of exchanges that need no message: numbers of the header, times, sizes, packets.

In come finished exchanges, out go columns in their order. A compiled loop reads each exchange once and writes
all columns. With NumPy each column went through all exchanges several times, and these are as wide as three
lines of the processor's cache: that took 62 ns an exchange, and the loop takes 17. It is called for many
exchanges. `plain_columns` is the plain way, for few.
"""

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np
import pyarrow as pa

from kdissect.array_types import Bools, Int64s
from kdissect.capture.index.splits import Split
from kdissect.jit.decorators import jit_flat, jit_inline
from kdissect.jit.many_rows import are_many, read_only
from kdissect.jit.rows import Records, RowTable, new_table
from kdissect.streams.flow_state import (
    ORPHAN_RESPONSE,
    PACKET_BITS,
    REQUEST_SIDE,
    RESPONSE_SIDE,
    STATUS_NAMES,
    ExchangeRow,
)
from kdissect.tables.array_batch import ArrayColumn, number_column
from kdissect.tables.coded_text import CodedText, NumberColumn
from kdissect.tables.column import INT16, INT32, INT64

NUMBERS = {
    "ordinal": INT64,
    "api_key": INT16,
    "api_version": INT16,
    "in_flight": INT32,
    "correlation_id": INT32,
    "request_first_ns": INT64,
    "request_last_ns": INT64,
    "response_first_ns": INT64,
    "response_last_ns": INT64,
    "latency_ns": INT64,
    "request_bytes": INT64,
    "response_bytes": INT64,
    "request_packet": INT64,
    "response_packet": INT64,
}
"""The columns of numbers, with their types, in the order in which the loop writes them."""

(
    ORDINAL,
    API_KEY,
    API_VERSION,
    IN_FLIGHT,
    CORRELATION_ID,
    REQUEST_FIRST_NS,
    REQUEST_LAST_NS,
    RESPONSE_FIRST_NS,
    RESPONSE_LAST_NS,
    LATENCY_NS,
    REQUEST_BYTES,
    RESPONSE_BYTES,
    REQUEST_PACKET,
    RESPONSE_PACKET,
    STATUS,
    FILE,
    WRITTEN,
) = range(17)

PADDING = 72  # of columns
NUMBER_OF_FILE = (1 << PACKET_BITS) - 1

_STATUSES = pa.array(STATUS_NAMES, pa.string())


class CaptureFiles(NamedTuple):
    """The number of the file of each split, and the names of files. Batches of a task have the same ones."""

    of_split: Int64s
    names: pa.Array

    @classmethod
    def of(cls, splits: Sequence[Split]) -> Self:
        """Return the files of some splits."""
        names = sorted({split.name for split in splits})
        number = {name: index for index, name in enumerate(names)}
        of_split = np.array([number[split.name] for split in splits], np.int64)
        return cls(of_split, pa.array(names, pa.string()))


def header_columns(exchanges: Records, files: CaptureFiles) -> dict[str, ArrayColumn]:
    """Return the columns that need no message."""
    if not are_many(len(exchanges)):
        return plain_columns(exchanges, files)
    file_of, names = files
    # Columns that lie a power of two apart would push each other out of the processor's cache.
    count, width = len(exchanges), len(exchanges) + PADDING
    written, present = np.empty((WRITTEN, width), np.int64), np.empty((WRITTEN, width), bool)
    fill_headers(exchanges, read_only(file_of), written, present)
    columns: dict[str, ArrayColumn] = {
        name: NumberColumn(written[place, :count], present[place, :count], kind)
        for place, (name, kind) in enumerate(NUMBERS.items())
    }
    return columns | _texts(written[STATUS, :count], written[FILE, :count], names)


def plain_columns(exchanges: Records, files: CaptureFiles) -> dict[str, ArrayColumn]:
    """Return the columns that need no message, each from whole columns of the exchanges."""
    has_request = exchanges["status"] != ORPHAN_RESPONSE
    values: dict[str, tuple[Int64s, Bools]] = {
        name: (exchanges[name], has_request) for name in ("ordinal", "api_key", "api_version", "in_flight")
    }
    values["correlation_id"] = exchanges["correlation_id"], np.ones(len(exchanges), bool)
    file_of, names = files
    file = np.full(len(exchanges), -1, np.int64)
    for side, has_side in (
        (REQUEST_SIDE, has_request),
        (RESPONSE_SIDE, exchanges[RESPONSE_SIDE]["start"] > 0),
    ):
        frames = exchanges[side]
        for edge in ("first", "last"):
            time = frames[f"{edge}_byte_ns"]
            values[f"{side}_{edge}_ns"] = time, has_side & (time >= 0)
        values[f"{side}_bytes"] = frames["frame_stop"] - frames["start"], has_side
        own_file = np.where(has_side & (frames["packet"] >= 0), file_of[frames["packet"] >> PACKET_BITS], -1)
        file = np.where(file >= 0, file, own_file)
        values[f"{side}_packet"] = frames["packet"] & NUMBER_OF_FILE, (own_file >= 0) & (own_file == file)
    (sent, is_sent), (answered, is_answered) = values["request_last_ns"], values["response_first_ns"]
    # A response that was captured before its request has a latency, but this capture cannot tell it.
    values["latency_ns"] = answered - sent, is_answered & is_sent & (answered >= sent)
    columns: dict[str, ArrayColumn] = {
        name: number_column(*values[name], kind) for name, kind in NUMBERS.items()
    }
    return columns | _texts(exchanges["status"].copy(), file, names)


def _texts(status: Int64s, file: Int64s, names: pa.Array) -> dict[str, ArrayColumn]:
    return {"status": CodedText(status, _STATUSES), "capture_file": CodedText(file, names)}


@jit_inline
def _put(out: Int64s, present: Bools, place: int, row: int, value: int, is_known: bool) -> None:
    out[place, row] = value if is_known else 0
    present[place, row] = is_known


@jit_flat
def fill_headers(exchanges: RowTable[ExchangeRow], file_of: Int64s, out: Int64s, present: Bools) -> None:
    """Fill the columns of NUMBERS, then STATUS and FILE; a number that is not present is 0."""
    for row in range(len(exchanges)):
        status = exchanges[row].status
        has_request = status != ORPHAN_RESPONSE
        has_response = exchanges[row].response.start > 0
        sent, answered = exchanges[row].request.last_byte_ns, exchanges[row].response.first_byte_ns
        is_sent, is_answered = has_request and sent >= 0, has_response and answered >= 0
        request_packet, response_packet = exchanges[row].request.packet, exchanges[row].response.packet
        request_file, response_file = np.int64(-1), np.int64(-1)
        if has_request and request_packet >= 0:
            request_file = file_of[request_packet >> PACKET_BITS]
        if has_response and response_packet >= 0:
            response_file = file_of[response_packet >> PACKET_BITS]
        file = request_file if request_file >= 0 else response_file
        first, last = exchanges[row].request.first_byte_ns, exchanges[row].response.last_byte_ns
        _put(out, present, ORDINAL, row, exchanges[row].ordinal, has_request)
        _put(out, present, API_KEY, row, exchanges[row].api_key, has_request)
        _put(out, present, API_VERSION, row, exchanges[row].api_version, has_request)
        _put(out, present, IN_FLIGHT, row, exchanges[row].in_flight, has_request)
        _put(out, present, CORRELATION_ID, row, exchanges[row].correlation_id, True)
        _put(out, present, REQUEST_FIRST_NS, row, first, has_request and first >= 0)
        _put(out, present, REQUEST_LAST_NS, row, sent, is_sent)
        _put(out, present, RESPONSE_FIRST_NS, row, answered, is_answered)
        _put(out, present, RESPONSE_LAST_NS, row, last, has_response and last >= 0)
        has_latency = is_sent and is_answered and answered >= sent
        _put(out, present, LATENCY_NS, row, answered - sent, has_latency)
        size = exchanges[row].request.frame_stop - exchanges[row].request.start
        _put(out, present, REQUEST_BYTES, row, size, has_request)
        size = exchanges[row].response.frame_stop - exchanges[row].response.start
        _put(out, present, RESPONSE_BYTES, row, size, has_response)
        is_here = request_file >= 0 and request_file == file
        _put(out, present, REQUEST_PACKET, row, request_packet & NUMBER_OF_FILE, is_here)
        is_here = response_file >= 0 and response_file == file
        _put(out, present, RESPONSE_PACKET, row, response_packet & NUMBER_OF_FILE, is_here)
        _put(out, present, STATUS, row, status, True)
        _put(out, present, FILE, row, file, True)


def call_all() -> None:
    """Call the loop, so that it is compiled and kept."""
    exchanges: RowTable[ExchangeRow] = new_table(ExchangeRow, 1)
    none = read_only(np.zeros(1, np.int64))
    fill_headers(exchanges, none, np.zeros((WRITTEN, 1), np.int64), np.zeros((WRITTEN, 1), bool))
