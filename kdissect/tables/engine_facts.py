"""Facts of the engine's state that rows of exchanges need beside their batch.

The engine goes on when a batch was handed over. So all that tables need of its state is taken at that time,
and tables can be made in another process.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np

from kdissect.array_types import Bools, Int64s
from kdissect.jit.rows import Records, array_of
from kdissect.streams.engine import ExchangeBatch
from kdissect.streams.flow_state import REQUEST_SIDE, RESPONSE_SIDE, TLS, TLS_PASSED
from kdissect.streams.processor import FlowProcessor
from kdissect.tables.array_batch import ArrayBatch
from kdissect.tables.connections import client_sides, end_rows

SIDES = (REQUEST_SIDE, RESPONSE_SIDE)


class EngineFacts(NamedTuple):
    """Facts about the connections of a batch.

    `identities` has their public numbers, by row. `in_full` says by side and row of the connection whether
    all that its sender sent is there; a side without a message that stops early is left out. `ends` are rows
    of ENDS, None if they are not wanted.
    """

    identities: Int64s
    in_full: Mapping[str, Bools]
    ends: ArrayBatch | None


def engine_facts(batch: ExchangeBatch, processor: FlowProcessor, wanted: Collection[str]) -> EngineFacts:
    """Return the facts about a batch that the engine has just finished; `wanted` may name `ends`."""
    ends = None
    if "ends" in wanted:
        # Rows of connections are few numbers, so they are found without sorting.
        ends = end_rows(processor, np.flatnonzero(np.bincount(batch.exchanges["connection"])))
    in_full = {
        side: _in_full(processor, side, batch.exchanges["connection"][early])
        for side in SIDES
        if (early := _stops_early(batch.exchanges[side])).any()
    }
    return EngineFacts(processor.identities, in_full, ends)


def unfinished(exchanges: Records, facts: EngineFacts) -> dict[str, Bools]:
    """Return, by side, which of the exchanges have a message that was not sent in full."""
    found = {}
    for side in SIDES:
        if side in facts.in_full:
            found[side] = _stops_early(exchanges[side]) & facts.in_full[side][exchanges["connection"]]
        else:
            found[side] = np.zeros(len(exchanges), np.bool_)
    return found


def _stops_early(frames: Records) -> Bools:
    early: Bools = (frames["start"] > 0) & (frames["stop"] < frames["frame_stop"])
    return early


def _in_full(processor: FlowProcessor, side: str, rows: Int64s) -> Bools:
    """Return, by row, for some connections whether all that was sent on a side is there; False for others."""
    connections = array_of(processor.state.connections)[rows]
    client = client_sides(connections)
    sender = client if side == REQUEST_SIDE else 1 - client
    directions = array_of(processor.state.directions)[2 * rows + sender]
    known = np.zeros(len(processor.endpoints), np.bool_)
    # Under TLS, records that were not decrypted may be missing.
    known[rows] = (
        (directions["lost_bytes"] == 0)
        & (directions["overfull_holes"] == 0)
        & (connections["overheld"] == 0)
        & ~np.isin(connections["protocol"], (TLS, TLS_PASSED))
    )
    return known
