"""All kernels are compiled, for later runs: `python -m kdissect.spark.startup.compile_kernels PRIORITY`.

    this process     reassembly, framing and pairing ──► waits ──► all of it once more, from the cache
    another one      pass one, messages, tables, figures ──┘

Two processes compile half of the kernels each: somebody may wait for them, even if they run in the
background. The second half needs what the first one finds, so a third process prepares it before, without the
compiler: dissecting the small captures of `warmup` takes a second that way. At the end one process does both
passes. It compiles what a process that was killed has left, and records that all kernels are there.
"""

import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import NamedTuple

import pyarrow as pa

from kdissect.background_program import LOWEST_PRIORITY, set_priority
from kdissect.capture.index.splits import Split
from kdissect.forked_process import ForkedProcess, ProcessLostError
from kdissect.jit.kernel_cache import SWITCH
from kdissect.spark.figures_step import HANDED_OVER, figures_of
from kdissect.spark.startup.warmup import (
    ENGINE_FOR_MANY,
    OTHERS_FOR_MANY,
    compile_for_many,
    warm_up,
    warmup_pieces,
    warmup_splits,
)
from kdissect.spark.task_tables import DEFAULT, TaskTables
from kdissect.streams.own_bytes import own_bytes
from kdissect.tables.build import Paired, new_table_processor, paired_batches

UNCOMPILED = "uncompiled"  # the argument of the process that prepares what the others begin with
UNCOMPILED_COMMAND = [sys.executable, "-P", "-m", "kdissect.spark.startup.compile_kernels", UNCOMPILED]


class Prepared(NamedTuple):
    """The small captures: their splits, pieces of connections, and finished exchanges."""

    splits: Sequence[Split]
    pieces: Sequence[pa.RecordBatch]
    paired: Sequence[Paired]


def prepare() -> Prepared:
    """Return what both passes make of the small captures until tables are made."""
    splits = warmup_splits()
    pieces = warmup_pieces(splits)
    return Prepared(splits, pieces, find_exchanges(splits, pieces))


def find_exchanges(splits: Sequence[Split], pieces: Sequence[pa.RecordBatch]) -> list[Paired]:
    """Return finished exchanges with bytes of their own: a batch is valid until the next one is asked for."""
    found = paired_batches(pieces, new_table_processor(splits, DEFAULT.keys), ())
    return [Paired(own, facts) for batch, facts, _ in found for own in own_bytes(batch, HANDED_OVER)]


def compile_all(beside: bool) -> None:
    """Compile all kernels, in two processes with `beside`."""
    if beside:
        with suppress(OSError):  # then one process compiles all
            _compile_halves(prepared_uncompiled())
    compile_for_many()
    warm_up()


def prepared_uncompiled() -> Prepared:
    """Return what a process without the compiler prepares. Raise OSError if it fails."""
    done = subprocess.run(
        UNCOMPILED_COMMAND,
        env={**os.environ, SWITCH: "0"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        check=False,
    )
    if done.returncode:
        raise OSError(f"a process without the compiler returned {done.returncode}")
    return Prepared(*pickle.loads(done.stdout))  # noqa: S301 - of a process of this program


def _compile_halves(prepared: Prepared) -> None:
    def be_the_other(pipe: Connection) -> None:
        compile_tables(prepared)
        pipe.send(None)

    other = ForkedProcess(be_the_other, "compiles kernels")
    compile_engine(prepared)
    with suppress(ProcessLostError):  # it was killed, perhaps for its memory
        other.receive()
    other.end()


def compile_engine(prepared: Prepared) -> None:
    """Compile the kernels of reassembly, framing and pairing."""
    for call in ENGINE_FOR_MANY:
        call()
    find_exchanges(prepared.splits, prepared.pieces)


def compile_tables(prepared: Prepared) -> None:
    """Compile the kernels of pass one, messages, tables and figures."""
    warmup_pieces(warmup_splits())
    tables = TaskTables(prepared.splits, DEFAULT, as_arrays=True)
    figures_of(tables.exchanges(prepared.paired), None, None)
    for call in OTHERS_FOR_MANY:
        call()


def main(argument: str) -> None:
    """Run the program with a priority (an increment of nice(2)), or as the process without the compiler."""
    if argument == UNCOMPILED:
        # A plain tuple: the class of a module that runs as a program is another one elsewhere.
        sys.stdout.buffer.write(pickle.dumps(tuple(prepare())))
        return
    set_priority(int(argument))
    compile_all(beside=len(os.sched_getaffinity(0)) > 1)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else str(LOWEST_PRIORITY))
