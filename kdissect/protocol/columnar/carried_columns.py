"""Columns of messages as few arrays without gaps, which one process reads and another one uses.

A walk writes few registers of most messages, into memory with room for all. Only registers that are used are
carried. Programs are compiled when somebody needs them, so the row of a program means something only to the
process that compiled it. Paths of fields that could not be read are carried, too.
"""

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kdissect.array_types import Int64s
from kdissect.protocol.columnar.batch_reader import Columns, Table, tables_of_rows
from kdissect.protocol.columnar.registers import BROKER, MESSAGE, MESSAGE_WIDTH

Verdicts: TypeAlias = tuple[
    NDArray[np.int16],
    NDArray[np.int32],
    NDArray[np.bool_],
    NDArray[np.int8],
    NDArray[np.int32],
    NDArray[np.int32],
]


class CarriedColumns(NamedTuple):
    """The arrays that `Columns` are made of."""

    slots: list[int]
    """Registers of messages that any of them uses."""
    values: Int64s
    """Their values, of shape (slots, messages)."""
    present: Int64s
    rows: Int64s
    nodes: Int64s
    """For each node its message, bits of what is present, then all registers."""
    summaries: Int64s
    verdicts: Verdicts
    """The columns of `Columns` from `error_code` to `fault_row`."""
    paths: Mapping[int, str]
    """Fields that could not be read, by row of the program."""


def carried(columns: Columns) -> CarriedColumns:
    """Return columns as few arrays."""
    messages, nodes = columns.messages, columns.nodes
    used = int(np.bitwise_or.reduce(messages.present, initial=0))
    used |= used << 1  # the second slot of a span
    slots = [slot for slot in range(MESSAGE_WIDTH) if used >> slot & 1]
    values = np.empty((len(slots), len(messages)), np.int64)
    for place, slot in enumerate(slots):
        values[place] = messages.values[:, slot]
    faults = np.unique(columns.fault_row[columns.fault_row >= 0]).tolist()
    return CarriedColumns(
        slots,
        values,
        messages.present,
        columns.rows,
        np.column_stack([nodes.message, nodes.present, nodes.values]),
        columns.records.summaries,
        (
            columns.error_code,
            columns.error_count,
            columns.has_error,
            columns.fault_reason,
            columns.fault_position,
            columns.fault_row,
        ),
        {row: columns.paths[row] for row in faults},
    )


def resumed(found: CarriedColumns) -> Columns:
    """Return the columns that were carried. Their tables of rows lie in what was carried."""
    count = found.values.shape[1]
    values = np.empty((count, MESSAGE_WIDTH), np.int64, order="F")
    for place, slot in enumerate(found.slots):
        values[:, slot] = found.values[place]
    partitions, records = tables_of_rows(found.rows, found.summaries)
    message, present = found.nodes[:, :2].T.copy()
    return Columns(
        Table(MESSAGE, np.arange(count), found.present, values),
        partitions,
        Table(BROKER, message, present, found.nodes[:, 2:]),
        records,
        found.rows,
        *found.verdicts,
        found.paths,
    )
