"""Rows of `addressed_voters`: which controller a request of another one is for.

In come exchanges, out goes a row for each request that names its receiver. Controllers do so where they ask
for a vote or tell that they lead (KIP-853), so the address of the server is that of this node. No response
names a controller that does not lead.
"""

import numpy as np
import pyarrow as pa

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.api_mask import in_apis
from kdissect.protocol.columnar.field_reader import FieldReader
from kdissect.streams.engine import ExchangeBatch
from kdissect.streams.flow_state import ANSWERED, REQUEST_SIDE
from kdissect.tables.array_batch import ArrayBatch, numbers_at
from kdissect.tables.message_list import frame_spans
from kdissect.tables.schemas import ADDRESSED_VOTERS

NAMING = (ApiKey.VOTE, ApiKey.BEGIN_QUORUM_EPOCH)
FIELDS = FieldReader({"voter_id": "node_id"}, response=False)

_NO_ROWS = pa.RecordBatch.from_pylist([], schema=ADDRESSED_VOTERS)


def addressed_voter_rows(batch: ExchangeBatch, exchanges: pa.RecordBatch | ArrayBatch) -> pa.RecordBatch:
    """Return the rows of ADDRESSED_VOTERS of a batch; `exchanges` are its rows, in its order.

    A request without an answer may have come to an address that another node had before.
    """
    status, keys = batch.exchanges["status"], batch.exchanges["api_key"]
    rows = np.flatnonzero(in_apis(keys, NAMING) & (status == ANSWERED))
    if not len(rows):
        return _NO_ROWS
    key, version = (batch.exchanges[name][rows].astype(np.int16) for name in ("api_key", "api_version"))
    fields = FIELDS.read(batch.arena, frame_spans(batch.exchanges, REQUEST_SIDE, rows), key, version)
    node_id, refused = fields.integers("node_id"), numbers_at(exchanges, "error_code", rows).values != 0
    kept = np.flatnonzero(node_id.present & (node_id.values >= 0) & ~refused)
    columns = {name: numbers_at(exchanges, name, rows[kept]).values for name in ("connection", "ordinal")}
    columns |= {"node_id": node_id.values[kept]}
    arrays = [pa.array(columns[field.name]).cast(field.type) for field in ADDRESSED_VOTERS]
    return pa.RecordBatch.from_arrays(arrays, schema=ADDRESSED_VOTERS)
