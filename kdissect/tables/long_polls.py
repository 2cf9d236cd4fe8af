"""Latency by design: long polls and waits for group members are not service time.

In come exchanges with the columns of their messages, out goes which of them waited by design.

- A fetch waits on the broker until `min_bytes` are there or `max_wait_ms` is over. It did wait if it came
  back empty and without error, or with a record that is younger than the request itself.
- A join is answered when all members have joined or the rebalance is over.
- A sync is answered when the leader has sent the assignment; the leader's own sync is not a wait.
"""

import numpy as np

from kdissect.protocol.api_keys import FETCHES, ApiKey
from kdissect.protocol.codec.messages import decode_request
from kdissect.streams.flow_state import ANSWERED
from kdissect.streams.processor import ExchangeBatch
from kdissect.tables.message_columns import Bools, MessageColumns

NS_PER_MS = 1_000_000


def idle_waits(batch: ExchangeBatch, request: MessageColumns, response: MessageColumns) -> Bools:
    """Return for each exchange whether its latency is a wait by design."""
    exchanges = batch.exchanges
    key = exchanges["api_key"]
    succeeded = (exchanges["status"] == ANSWERED) & (response.spread(response.columns.error_code, 0) == 0)
    idle: Bools = succeeded & (key == ApiKey.JOIN_GROUP)
    fetches = np.flatnonzero(succeeded & np.isin(key, [*FETCHES]))
    if len(fetches):
        idle[fetches] = _waited_for_data(batch, request, response)[fetches]
    for row in np.flatnonzero(succeeded & (key == ApiKey.SYNC_GROUP)).tolist():
        idle[row] = not _carries_assignment(batch, row)
    return idle


def _waited_for_data(batch: ExchangeBatch, request: MessageColumns, response: MessageColumns) -> Bools:
    max_wait, _ = request.integers("max_wait_ms")
    min_bytes, _ = request.integers("min_bytes")
    sizes = response.columns.partitions.spans("record_set").length
    received_bytes = response.per_exchange(np.maximum(sizes, 0), np.add, 0)
    newest_ms = response.per_exchange(response.columns.records["max_timestamp_ms"], np.maximum, -1)
    sent_ms = batch.exchanges["request"]["last_byte_ns"] // NS_PER_MS
    waited: Bools = (max_wait > 0) & (min_bytes > 0) & ((received_bytes == 0) | (newest_ms >= sent_ms))
    return waited


def _carries_assignment(batch: ExchangeBatch, row: int) -> bool:
    start, stop = batch.exchanges["request"]["start"][row], batch.exchanges["request"]["stop"][row]
    body = decode_request(batch.arena[start:stop].tobytes()).body
    return bool(body and body.get("assignments"))
