"""Which fetches asked at the end of the log: what earlier responses of their connection said of its end.

In come the fetches of a batch with the partitions that their messages name, out goes for each answered fetch
the time at which the connection last learned that none of the returned records existed. That is so if an
earlier response gave a high watermark at or below the first offset that is returned now. A reader of
committed records gets none behind the last stable offset, which is the end for it. A response of a fetch
session leaves out the partitions that did not change (KIP-227), so it confirms their ends too, unless the
next request names them anew. Nothing is known before the first response of a connection.

`MOST_ENDS` bounds the memory. A partition beyond it is not known.
"""

from typing import NamedTuple

import numpy as np

from kdissect.array_types import Bytes, Int64s
from kdissect.jit.decorators import jit, jit_inner
from kdissect.protocol.api_keys import FETCHES
from kdissect.protocol.api_mask import in_apis
from kdissect.protocol.columnar.registers import ROW_SLOTS, SUMMARY_AT
from kdissect.protocol.columnar.vm_state import OWNER_PRESENT, OWNER_WIDTH
from kdissect.protocol.records.batch_summary import BASE_OFFSET
from kdissect.streams.carry.value_bytes import Value
from kdissect.streams.engine import ExchangeBatch
from kdissect.streams.flow_state import ANSWERED
from kdissect.tables.message_columns import MessageColumns
from kdissect.tables.partition_keys import hash_key, hash_number, partition_keys

FIRST_ENDS, MOST_ENDS = 1 << 10, 1 << 20
UNKNOWN = -1
READ_COMMITTED = 1
RECORD_SET_SLOT, HIGH_WATERMARK_SLOT = ROW_SLOTS["record_set"], ROW_SLOTS["high_watermark"]
LAST_STABLE_SLOT = ROW_SLOTS["last_stable_offset"]
KEY, END, TIME, NAMED, OWNER, WIDTH = range(6)
"""Columns of what is remembered of a partition of a connection.

The hash of both, the end for this reader, the time of the response that named it, the fetch that named it
anew, the row of the connection.
"""


@jit_inner
def _slot(ends: Int64s, key: int) -> int:
    """Return the slot that has a key, or the empty one where it belongs; every table has empty slots."""
    mask = len(ends) - 1
    slot = key & mask
    while ends[slot, KEY] != UNKNOWN and ends[slot, KEY] != key:
        slot = (slot + 1) & mask
    return slot


@jit
def move_ends(old: Int64s, new: Int64s) -> None:
    """Enter everything from one table into a larger one."""
    for row in range(len(old)):
        if old[row, KEY] != UNKNOWN:
            slot = _slot(new, old[row, KEY])
            for column in range(old.shape[1]):
                new[slot, column] = old[row, column]


@jit
def renumber_ends(ends: Int64s, number_of: Int64s) -> None:
    """Change entries as if their connection had always had the row that `number_of` has for its row."""
    for row in range(len(ends)):
        owner = ends[row, OWNER]
        ends[row, KEY] ^= hash_number(owner) ^ hash_number(number_of[owner])
        ends[row, OWNER] = number_of[owner]


@jit_inner
def _name_anew(ends: Int64s, key: int, serial: int) -> None:
    """Note the fetch that names a partition, if that is known."""
    slot = _slot(ends, key)
    if ends[slot, KEY] == key:
        ends[slot, NAMED] = serial


@jit_inner
def _first_offset(rows: Int64s, summaries: Int64s, row: int) -> int:
    """Return the offset of the first record that a row returns, UNKNOWN without records."""
    has_records = rows[row, OWNER_PRESENT] >> RECORD_SET_SLOT & 1
    if has_records and rows[row, OWNER_WIDTH + RECORD_SET_SLOT + 1] > 0:
        return summaries[rows[row, OWNER_WIDTH + SUMMARY_AT], BASE_OFFSET]
    return UNKNOWN


@jit_inner
def _end(rows: Int64s, row: int, isolation: int) -> int:
    """Return the offset behind the last record that a reader may get by a row, UNKNOWN if it does not say."""
    if not rows[row, OWNER_PRESENT] >> HIGH_WATERMARK_SLOT & 1:
        return UNKNOWN
    end = rows[row, OWNER_WIDTH + HIGH_WATERMARK_SLOT]
    if isolation == READ_COMMITTED and rows[row, OWNER_PRESENT] >> LAST_STABLE_SLOT & 1:
        stable = rows[row, OWNER_WIDTH + LAST_STABLE_SLOT]
        if stable >= 0 and stable < end:
            return stable
    return end


@jit
def follow_ends(
    arena: Bytes,
    ends: Int64s,
    room: int,
    fetches: Int64s,
    request_keys: Int64s,
    request_of: Int64s,
    response_keys: Int64s,
    response_of: Int64s,
    rows: Int64s,
    summaries: Int64s,
    since: Int64s,
    previous: Int64s,
) -> int:
    """Fill `since` and `previous` by exchange, and enter what responses say. Return the new entries.

    `fetches` has exchange, connection, serial number, time of the response and isolation level. Keys have the
    columns of `partition_keys`. `rows` are the partition rows of responses, `summaries` those of records.
    """
    entered, request, response = 0, 0, 0
    for row in range(len(fetches)):
        exchange, connection, serial, time, isolation = fetches[row]
        seed = hash_number(connection)
        own = _slot(ends, seed)
        if ends[own, KEY] == UNKNOWN and entered < room:
            ends[own, KEY], ends[own, TIME], ends[own, OWNER] = seed, UNKNOWN, connection
            entered += 1
        last = previous[exchange] = ends[own, TIME] if ends[own, KEY] == seed else UNKNOWN
        while request < len(request_of) and request_of[request] < exchange:
            request += 1
        while request < len(request_of) and request_of[request] == exchange:
            _name_anew(ends, hash_key(arena, request_keys, request) ^ seed, serial)
            request += 1
        learned, is_known, has_records = last, last != UNKNOWN, False
        while response < len(response_of) and response_of[response] < exchange:
            response += 1
        while response < len(response_of) and response_of[response] == exchange:
            key = hash_key(arena, response_keys, response) ^ seed
            slot = _slot(ends, key)
            is_old = ends[slot, KEY] == key
            offset = _first_offset(rows, summaries, response)
            if offset != UNKNOWN:
                has_records = True
                if not is_old or ends[slot, END] < 0 or ends[slot, END] > offset:
                    is_known = False
                elif ends[slot, NAMED] == serial and ends[slot, TIME] < learned:
                    learned = ends[slot, TIME]
            if not is_old and entered < room:
                ends[slot, KEY], ends[slot, OWNER], is_old = key, connection, True
                entered += 1
            if is_old:
                ends[slot, END] = _end(rows, response, isolation)
                ends[slot, TIME] = time
            response += 1
        if has_records and is_known:
            since[exchange] = learned
        if ends[own, KEY] == seed:
            ends[own, TIME] = time
    return entered


class FetchHistory(NamedTuple):
    """Knowledge of a connection when it sent a fetch, for each exchange (ns since the epoch, or UNKNOWN).

    `at_end_since`: nothing of what is returned was there. `previous`: the fetch before was answered.
    """

    at_end_since: Int64s
    previous: Int64s


class LogEnds:
    """The ends of the logs as the responses on each connection gave them."""

    def __init__(self) -> None:
        self._ends = np.full((FIRST_ENDS, WIDTH), UNKNOWN, np.int64)
        self._entered = 0
        self._serial = 0

    def follow(self, batch: ExchangeBatch, request: MessageColumns, response: MessageColumns) -> FetchHistory:
        """Return what was known at each fetch of a batch, and remember what its responses say."""
        exchanges = batch.exchanges
        since, previous = (np.full(len(exchanges), UNKNOWN, np.int64) for _ in range(2))
        rows = np.flatnonzero((exchanges["status"] == ANSWERED) & in_apis(exchanges["api_key"], FETCHES))
        if not len(rows):
            return FetchHistory(since, previous)
        serials = self._serial + np.arange(len(rows))
        self._serial += len(rows)
        connection, time = exchanges["connection"][rows], exchanges["response"]["first_byte_ns"][rows]
        isolation = request.integers("isolation_level")[0][rows]
        fetches = np.stack([rows, connection, serials, time, isolation], axis=1).astype(np.int64)
        asked, answered = (partition_keys(batch.arena, columns) for columns in (request, response))
        room = self.make_room(len(answered.keys) + len(rows))
        self._entered += follow_ends(
            batch.arena,
            self._ends,
            room,
            fetches,
            asked.keys,
            asked.exchange,
            answered.keys,
            answered.exchange,
            response.columns.rows,
            response.columns.records.summaries,
            since,
            previous,
        )
        return FetchHistory(since, previous)

    def carried(self, rows: Int64s) -> Value:
        """Return what is known on the connections in `rows`, which are counted anew."""
        entries = self._ends[self._ends[:, KEY] != UNKNOWN]
        number_of = np.full(max(int(entries[:, OWNER].max(initial=-1)), int(rows.max(initial=-1))) + 1, -1)
        number_of[rows] = np.arange(len(rows))
        entries = entries[number_of[entries[:, OWNER]] >= 0]
        renumber_ends(entries, number_of)
        return {"entries": entries, "serial": self._serial}

    def resume(self, value: Value) -> None:
        """Go on with what `carried` returned."""
        self.make_room(len(value["entries"]))
        move_ends(value["entries"], self._ends)
        self._entered, self._serial = len(value["entries"]), value["serial"]

    def make_room(self, more: int) -> int:
        """Grow the table, which stays half empty, and return how many entries it may take."""
        size = len(self._ends)
        while size < 2 * (self._entered + more) and size < MOST_ENDS:
            size *= 2
        if size > len(self._ends):
            larger = np.full((size, WIDTH), UNKNOWN, np.int64)
            move_ends(self._ends, larger)
            self._ends = larger
        return max(size // 2 - self._entered, 0)
