"""Rows of `shutdown_requests`: brokers that ask the controller to let them end.

In come exchanges, out goes a row for each such request. Brokers with ZooKeeper send ControlledShutdown. Those
with KRaft say so in a BrokerHeartbeat. Heartbeats are frequent, and few of them say so: their fields are read
as columns.
"""

import numpy as np
import pyarrow as pa

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.api_mask import in_apis
from kdissect.protocol.columnar.field_reader import FieldReader
from kdissect.streams.engine import ExchangeBatch
from kdissect.streams.flow_state import ORPHAN_RESPONSE, REQUEST_SIDE
from kdissect.tables.array_batch import ArrayBatch, numbers_at
from kdissect.tables.message_list import frame_spans
from kdissect.tables.schemas import SHUTDOWN_REQUESTS

ASKING = (ApiKey.CONTROLLED_SHUTDOWN, ApiKey.BROKER_HEARTBEAT)
FIELDS = FieldReader({"broker_id": "node_id", "want_shut_down": "wanted"}, response=False)

_NO_ROWS = pa.RecordBatch.from_pylist([], schema=SHUTDOWN_REQUESTS)


def shutdown_request_rows(batch: ExchangeBatch, exchanges: pa.RecordBatch | ArrayBatch) -> pa.RecordBatch:
    """Return the rows of SHUTDOWN_REQUESTS of a batch; `exchanges` are its rows, in its order."""
    status, keys = batch.exchanges["status"], batch.exchanges["api_key"]
    rows = np.flatnonzero(in_apis(keys, ASKING) & (status != ORPHAN_RESPONSE))
    if not len(rows):
        return _NO_ROWS
    key, version = (batch.exchanges[name][rows].astype(np.int16) for name in ("api_key", "api_version"))
    fields = FIELDS.read(batch.arena, frame_spans(batch.exchanges, REQUEST_SIDE, rows), key, version)
    node_id = fields.integers("node_id")
    asks = (key == ApiKey.CONTROLLED_SHUTDOWN) | (fields.integers("wanted").values != 0)
    time_ns = numbers_at(exchanges, "request_first_ns", rows)
    kept = np.flatnonzero(asks & node_id.present & (node_id.values >= 0) & time_ns.present)
    columns = {name: numbers_at(exchanges, name, rows[kept]).values for name in ("connection", "ordinal")}
    columns |= {"node_id": node_id.values[kept], "time_ns": time_ns.values[kept]}
    arrays = [pa.array(columns[field.name]).cast(field.type) for field in SHUTDOWN_REQUESTS]
    return pa.RecordBatch.from_arrays(arrays, schema=SHUTDOWN_REQUESTS)
