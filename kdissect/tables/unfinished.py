"""Messages that were not sent in full: a reset, or the end of the capture, came first.

The capture lacks nothing of them, so they are no fault of it. Where bytes of the stream were lost, or let go
to save memory, a message may lack them for that reason, and counts as before.
"""

import numpy as np

from kdissect.jit.rows import Records, array_of
from kdissect.streams.engine import ExchangeBatch
from kdissect.streams.flow_state import REQUEST_SIDE, RESPONSE_SIDE, TLS, TLS_PASSED
from kdissect.streams.processor import FlowProcessor
from kdissect.tables.connections import client_sides
from kdissect.tables.message_columns import Bools


def unfinished(batch: ExchangeBatch, processor: FlowProcessor) -> dict[str, Bools]:
    """Return, by side, which exchanges of a batch have a message that was not sent in full."""
    rows = batch.exchanges["connection"]
    connections = array_of(processor.state.connections)[rows]
    client = client_sides(connections)
    directions = array_of(processor.state.directions)
    return {
        side: _ends_early(
            batch.exchanges[side], directions[2 * rows + (client if side == REQUEST_SIDE else 1 - client)]
        )
        & (connections["overheld"] == 0)
        & ~np.isin(connections["protocol"], (TLS, TLS_PASSED))  # records that were not decrypted are missing
        for side in (REQUEST_SIDE, RESPONSE_SIDE)
    }


def _ends_early(frames: Records, directions: Records) -> Bools:
    early: Bools = (frames["start"] > 0) & (frames["stop"] < frames["frame_stop"])
    return early & (directions["lost_bytes"] == 0) & (directions["overfull_holes"] == 0)
