"""Rows of `shutdown_requests` and `addressed_voters`: nodes that are named in requests to controllers.

In come exchanges, out goes a row for each such request.

- `shutdown_requests`: brokers that ask the controller to let them end. Brokers with ZooKeeper send
  ControlledShutdown. Those with KRaft say so in a BrokerHeartbeat.
- `addressed_voters`: which controller a request of another one is for. Controllers name the receiver where
  they ask for a vote or tell that they lead (KIP-853), so the address of the server is that of this node. No
  response names a controller that does not lead.

Heartbeats are frequent, and few of them ask for an end. So the fields of requests are read as columns.
"""

import numpy as np
import pyarrow as pa

from kdissect.array_types import Bools, Int64s
from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.api_mask import in_apis
from kdissect.protocol.columnar.field_reader import FieldColumns, FieldReader
from kdissect.streams.engine import ExchangeBatch
from kdissect.streams.flow_state import ANSWERED, ORPHAN_RESPONSE, REQUEST_SIDE
from kdissect.tables.array_batch import ArrayBatch, numbers_at
from kdissect.tables.message_list import frame_spans
from kdissect.tables.schemas import ADDRESSED_VOTERS, SHUTDOWN_REQUESTS

ASKING = (ApiKey.CONTROLLED_SHUTDOWN, ApiKey.BROKER_HEARTBEAT)
ASKING_FIELDS = FieldReader({"broker_id": "node_id", "want_shut_down": "wanted"}, response=False)
NAMING = (ApiKey.VOTE, ApiKey.BEGIN_QUORUM_EPOCH)
NAMING_FIELDS = FieldReader({"voter_id": "node_id"}, response=False)

_NO_SHUTDOWNS, _NO_VOTERS = (
    pa.RecordBatch.from_pylist([], schema=schema) for schema in (SHUTDOWN_REQUESTS, ADDRESSED_VOTERS)
)


def shutdown_request_rows(batch: ExchangeBatch, exchanges: pa.RecordBatch | ArrayBatch) -> pa.RecordBatch:
    """Return the rows of SHUTDOWN_REQUESTS of a batch; `exchanges` are its rows, in its order."""
    status, keys = batch.exchanges["status"], batch.exchanges["api_key"]
    rows = np.flatnonzero(in_apis(keys, ASKING) & (status != ORPHAN_RESPONSE))
    if not len(rows):
        return _NO_SHUTDOWNS
    fields = _read(batch, rows, ASKING_FIELDS)
    asks = (keys[rows] == ApiKey.CONTROLLED_SHUTDOWN) | (fields.integers("wanted").values != 0)
    time_ns = numbers_at(exchanges, "request_first_ns", rows)
    kept = asks & time_ns.present
    return _rows_of(SHUTDOWN_REQUESTS, exchanges, rows, fields, kept, time_ns=time_ns.values)


def addressed_voter_rows(batch: ExchangeBatch, exchanges: pa.RecordBatch | ArrayBatch) -> pa.RecordBatch:
    """Return the rows of ADDRESSED_VOTERS of a batch; `exchanges` are its rows, in its order.

    A request without an answer may have come to an address that another node had before.
    """
    status, keys = batch.exchanges["status"], batch.exchanges["api_key"]
    rows = np.flatnonzero(in_apis(keys, NAMING) & (status == ANSWERED))
    if not len(rows):
        return _NO_VOTERS
    fields = _read(batch, rows, NAMING_FIELDS)
    accepted = numbers_at(exchanges, "error_code", rows).values == 0
    return _rows_of(ADDRESSED_VOTERS, exchanges, rows, fields, accepted)


def _read(batch: ExchangeBatch, rows: Int64s, reader: FieldReader) -> FieldColumns:
    """Return the fields of the requests in some rows."""
    key, version = (batch.exchanges[name][rows].astype(np.int16) for name in ("api_key", "api_version"))
    return reader.read(batch.arena, frame_spans(batch.exchanges, REQUEST_SIDE, rows), key, version)


def _rows_of(
    schema: pa.Schema,
    exchanges: pa.RecordBatch | ArrayBatch,
    rows: Int64s,
    fields: FieldColumns,
    is_kept: Bools,
    **own: Int64s,
) -> pa.RecordBatch:
    """Return the rows that are kept and name a node, with columns of their `own`."""
    node_id = fields.integers("node_id")
    kept = np.flatnonzero(is_kept & node_id.present & (node_id.values >= 0))
    columns = {name: numbers_at(exchanges, name, rows[kept]).values for name in ("connection", "ordinal")}
    columns |= {name: values[kept] for name, values in {"node_id": node_id.values, **own}.items()}
    arrays = [pa.array(columns[field.name]).cast(field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
