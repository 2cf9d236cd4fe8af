"""A walk over messages of a program that a test made."""

import numpy as np

from kdissect.jit.unread_bytes import NO_ARRAY, NOTHING_UNREAD
from kdissect.protocol.columnar.assembler import Op
from kdissect.protocol.columnar.registers import (
    BROKER_WIDTH,
    MESSAGE_WIDTH,
    ROW_SLOTS,
    ROW_WIDTH,
    SUMMARY_WIDTH,
)
from kdissect.protocol.columnar.vm import USED_WIDTH, walk
from kdissect.protocol.columnar.vm_state import (
    FAULT,
    FAULT_AT,
    FAULT_ROW,
    OWNER_WIDTH,
    VERDICT_WIDTH,
    Reason,
    new_columns,
    new_rows,
    scratch,
)

PARTITION = MESSAGE_WIDTH + ROW_SLOTS["partition"]


class Walked:
    """Output of a walk over some messages of one program."""

    def __init__(self, rows: list[tuple[int, ...]], *messages: bytes, room: int = 100, lost: int = 0) -> None:
        table = np.array([(*row, *[0] * (5 - len(row))) for row in rows], np.int64)
        edges = np.cumsum([0, *map(len, messages)])
        self.messages = new_columns(len(messages), VERDICT_WIDTH + MESSAGE_WIDTH)
        self.messages[:] = 0
        self.rows = new_rows(room, OWNER_WIDTH + ROW_WIDTH)
        self.summaries = new_rows(room, SUMMARY_WIDTH)
        self.nodes = new_columns(1, OWNER_WIDTH + BROKER_WIDTH)
        self.used = np.zeros(USED_WIDTH, np.int64)
        self.done = walk(
            table,
            np.zeros(len(messages), np.int64),
            np.frombuffer(b"".join(messages), np.uint8),
            np.stack([edges[:-1], edges[1:] - lost, edges[1:]], axis=1),
            0,
            self.used,
            self.messages,
            self.rows,
            self.summaries,
            self.nodes,
            NOTHING_UNREAD,
            NO_ARRAY,
            *scratch(),
        )

    @property
    def fault(self) -> tuple[Reason, int, int]:
        """The fault of the first message: what, at which byte, in which row."""
        verdict = self.messages[0]
        return Reason(int(verdict[FAULT])), int(verdict[FAULT_AT]), int(verdict[FAULT_ROW])


PARTITIONS: list[tuple[int, ...]] = [
    (Op.ARRAY, 4, 4, 4, 0),
    (Op.INTEGER, 4, -1, PARTITION),
    (Op.ROW,),
    (Op.NEXT, 1),
    (Op.END,),
]
