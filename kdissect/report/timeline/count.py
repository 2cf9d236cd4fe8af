"""Batches of tables become the parts of the course of events: who did what in which step of time."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from kdissect.report.aggregate.grouping import Columns, nullable
from kdissect.report.aggregate.histogram import Ints
from kdissect.report.aggregate.partial_tables import Column, Part
from kdissect.report.aggregate.row_limits import bounded
from kdissect.report.timeline.cells import failures, moments
from kdissect.report.timeline.exchange_columns import (
    Scene,
    part_of,
    rows_of,
    scene_of,
)
from kdissect.report.timeline.grid import Grid
from kdissect.report.timeline.positions import positions
from kdissect.report.timeline.producer_sequences import producers, sequences
from kdissect.report.timeline.timeline_tables import (
    CLIENT,
    COURSE,
    FAILURES,
    GROUP_CLIENTS,
    GROUP_STEPS,
    MOMENTS,
    ORDER,
    POSITIONS,
    PRODUCERS,
    SEQUENCES,
    TOPIC_MOMENTS,
    TRANSACTION_STEPS,
)
from kdissect.report.timeline.topic_activity import topic_moments
from kdissect.tables.schemas import ENDS

EVENTS = {"group_events": GROUP_STEPS, "transaction_events": TRANSACTION_STEPS}
WANTED = ("ends", *EVENTS)
"""The tables on request that the course of events is counted from."""


def course(
    tables: Mapping[str, pa.RecordBatch | pa.Table],
    exchanges: Columns,
    partitions: Columns,
    located: Ints,
    grid: Grid,
) -> dict[str, pa.Table]:
    """Give the parts of the course of events."""
    ends = Columns(tables.get("ends", ENDS.empty_table()))
    scene = scene_of(exchanges, ends, grid)
    found = {
        MOMENTS.name: moments(scene),
        FAILURES.name: failures(scene, partitions, located),
        GROUP_CLIENTS.name: _group_clients(scene),
        TOPIC_MOMENTS.name: topic_moments(scene, partitions, located),
        POSITIONS.name: positions(scene, partitions, located),
        PRODUCERS.name: producers(scene, partitions, located),
        SEQUENCES.name: sequences(scene, partitions, located),
    }
    found |= {
        part.name: _events(part, Columns(tables[name]), ends)
        for name, part in EVENTS.items()
        if name in tables
    }
    return {name: bounded(COURSE[name], rows) for name, rows in found.items()}


def _group_clients(scene: Scene) -> pa.Table:
    exchanges = scene.exchanges
    rows = np.flatnonzero(exchanges.known("group_id"))
    columns = scene.at(rows, ("group_id", *CLIENT, "api_key", *ORDER))
    columns |= {
        "exchanges": np.ones(len(rows), np.int64),
        "error_responses": exchanges.ints("error_code")[rows] != 0,
    }
    return part_of(GROUP_CLIENTS, columns)


def _events(part: Part, events: Columns, ends: Columns) -> pa.Table:
    found = rows_of(ends, events.ints("connection"))
    columns: dict[str, Column] = {name: events.plain(name) for name in events.table.schema.names}
    columns["client_host"] = ends.plain("client_host").take(nullable(found, found >= 0))
    return part_of(part, columns | {"events": np.ones(events.rows, np.int64)})
