"""Messages that were not sent in full: a reset, or the end of the capture, came first.

The capture lacks nothing of them, so they are no fault of it. Where bytes of the stream were lost, or let go
to save memory, a message may lack them for that reason, and counts as before.
"""

import numpy as np

from kdissect.jit.rows import array_of
from kdissect.streams.engine import ExchangeBatch
from kdissect.streams.flow_state import REQUEST_SIDE, RESPONSE_SIDE, TLS, TLS_PASSED
from kdissect.streams.processor import FlowProcessor
from kdissect.tables.connections import client_sides
from kdissect.tables.message_columns import Bools


def unfinished(batch: ExchangeBatch, processor: FlowProcessor) -> dict[str, Bools]:
    """Return, by side, which exchanges of a batch have a message that was not sent in full."""
    return {side: _unfinished(batch, processor, side) for side in (REQUEST_SIDE, RESPONSE_SIDE)}


def _unfinished(batch: ExchangeBatch, processor: FlowProcessor, side: str) -> Bools:
    frames = batch.exchanges[side]
    early: Bools = (frames["start"] > 0) & (frames["stop"] < frames["frame_stop"])
    rows = np.flatnonzero(early)  # hardly any
    if not len(rows):
        return early
    of_connection = batch.exchanges["connection"][rows]
    connections = array_of(processor.state.connections)[of_connection]
    client = client_sides(connections)
    sender = client if side == REQUEST_SIDE else 1 - client
    directions = array_of(processor.state.directions)[2 * of_connection + sender]
    # Under TLS, records that were not decrypted may be missing.
    early[rows] = (
        (directions["lost_bytes"] == 0)
        & (directions["overfull_holes"] == 0)
        & (connections["overheld"] == 0)
        & ~np.isin(connections["protocol"], (TLS, TLS_PASSED))
    )
    return early
