"""Facts of the engine's state that rows of exchanges need beside their batch.

The engine goes on when a batch was handed over. So all that tables need of its state is taken at that time,
and tables can be made in another process.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np

from kdissect.array_types import Bools, Int64s
from kdissect.jit.decorators import jit_flat
from kdissect.jit.many_rows import are_many
from kdissect.jit.rows import Records, RowTable, array_of, new_table
from kdissect.streams.engine import ExchangeBatch
from kdissect.streams.flow_state import REQUEST_SIDE, RESPONSE_SIDE, TLS, TLS_PASSED, ExchangeRow
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
    in_full = {}
    for side in _sides_with_early_stops(batch.exchanges):
        early = _stops_early(batch.exchanges[side])
        in_full[side] = _in_full(processor, side, batch.exchanges["connection"][early])
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


def _sides_with_early_stops(exchanges: Records) -> list[str]:
    """Return the sides with a message that stops early. Most batches have no such side.

    Four columns of exchanges, in as many lines of the processor's cache each, took 20 ns an exchange.
    """
    if are_many(len(exchanges)):
        return [side for side, count in zip(SIDES, count_early(exchanges), strict=True) if count]
    return [side for side in SIDES if _stops_early(exchanges[side]).any()]


@jit_flat
def count_early(exchanges: RowTable[ExchangeRow]) -> tuple[int, int]:
    """Return how many requests and how many responses stop early."""
    requests, responses = 0, 0
    for row in range(len(exchanges)):
        request, response = exchanges[row].request, exchanges[row].response
        requests += request.start > 0 and request.stop < request.frame_stop
        responses += response.start > 0 and response.stop < response.frame_stop
    return requests, responses


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


def call_all() -> None:
    """Call the loop, so that it is compiled and kept."""
    exchanges: RowTable[ExchangeRow] = new_table(ExchangeRow, 1)
    count_early(exchanges)
