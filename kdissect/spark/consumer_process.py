"""A forked process that consumes the items which this process makes, and returns one result in the end.

Threads of Python take turns at all that is not in compiled code: with engine and tables in two threads, one
connection took as long as with one thread, at 1.55 times the processor time a second. Processes do not wait
for each other.

An item has two parts, both pickled. Arrays of the one that is lent lie in memory that the processes share, in
two places that are used in turn: while an item is consumed the next one is made and put aside. The part that
is given may be kept. A value that is lent and larger than a place has memory of its own, and nothing else is
under way with it.
"""

import mmap
import os
import pickle
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from functools import partial
from itertools import accumulate
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle, send_handle
from typing import Any, Generic, NamedTuple, Self, TypeVar

from kdissect.forked_process import ForkedProcess, frozen_garbage

PLACES = 2
PLACE_BYTES = 18 << 20  # for 17 MB: 8 MB of messages, their exchanges, and the columns that were read of them
ALIGNED = (
    64  # bytes: compiled loops take only arrays that are aligned, and Arrow likes whole lines of the cache
)

Lent = TypeVar("Lent")
Given = TypeVar("Given")
R = TypeVar("R")


class _NoMoreNeeded(Exception):
    """The process that hands over items has ended."""


class _Packed:
    """A value that is lent, pickled without its arrays, which are bytes one behind the other."""

    def __init__(self, lent: object) -> None:
        buffers: list[pickle.PickleBuffer] = []
        self.lent = pickle.dumps(lent, protocol=5, buffer_callback=buffers.append)
        self._arrays = [buffer.raw() for buffer in buffers]
        self.lengths = [len(array) for array in self._arrays]
        self.size = _starts(self.lengths)[-1]

    def write(self, memory: memoryview) -> None:
        """Write the arrays to memory."""
        for start, array in zip(_starts(self.lengths), self._arrays, strict=False):
            memory[start : start + len(array)] = array


class _Told(NamedTuple):
    """The message about an item: all but the arrays of what is lent. `place` is -1 for memory of its own."""

    lent: bytes
    lengths: list[int]
    place: int
    given: Any

    def value(self, memory: memoryview) -> Any:
        """Return what is lent, with its arrays in memory."""
        starts = _starts(self.lengths)
        arrays = [memory[start : start + length] for start, length in zip(starts, self.lengths, strict=False)]
        return pickle.loads(self.lent, buffers=arrays)  # noqa: S301 - of the process that forked this one


def _starts(lengths: list[int]) -> list[int]:
    """Return where arrays of these lengths begin, and where they end together."""
    return list(accumulate((-(-length // ALIGNED) * ALIGNED for length in lengths), initial=0))


class ConsumerProcess(Generic[Lent, Given, R]):
    """A process that runs `consume` on an iterator over what `put` is given. Leaving the context ends it.

    A value that is lent is valid in `consume` until the next item is asked for.
    """

    def __init__(self, consume: Callable[[Iterator[tuple[Lent, Given]]], R]) -> None:
        memory = memoryview(mmap.mmap(-1, PLACES * PLACE_BYTES))
        self._places = [memory[place * PLACE_BYTES :][:PLACE_BYTES] for place in range(PLACES)]
        self._under_way, self._next = 0, 0
        self._ends = ExitStack()
        self._ends.enter_context(frozen_garbage())
        self._process = ForkedProcess(partial(_consume, consume, self._places), "makes tables")
        self._ends.callback(self._process.end)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.close()

    def put(self, lent: Lent, given: Given) -> None:
        """Hand over an item; wait while two others are under way. Raise what `consume` raised."""
        packed = _Packed(lent)
        if packed.size > PLACE_BYTES:
            self._put_large(packed, given)
            return
        self._wait_for(PLACES - 1)
        packed.write(self._places[self._next])
        self._send(_Told(packed.lent, packed.lengths, self._next, given))
        self._next = (self._next + 1) % PLACES
        self._under_way += 1

    def _put_large(self, packed: _Packed, given: Given) -> None:
        """Hand over an item in memory of its own, and wait until it is consumed."""
        self._wait_for(0)
        descriptor = os.memfd_create("kdissect")
        try:
            os.ftruncate(descriptor, packed.size)
            with mmap.mmap(descriptor, packed.size) as memory, memoryview(memory) as view:
                packed.write(view)
            self._send(_Told(packed.lent, packed.lengths, -1, given), descriptor)
        finally:
            os.close(descriptor)
        self._under_way += 1
        self._wait_for(0)

    def _wait_for(self, most: int) -> None:
        """Wait until at most so many items are under way."""
        while self._under_way > most:
            self._process.receive()
            self._under_way -= 1

    def result(self) -> R:
        """Return what `consume` returns when there are no more items. Raise what it raised."""
        self._send(None)
        done: _Done[R] | None = None
        while done is None:
            done = self._process.receive()
        return done.result

    def _send(self, told: _Told | None, descriptor: int | None = None) -> None:
        try:
            self._process.pipe.send(told)
            if descriptor is not None:
                send_handle(self._process.pipe, descriptor, self._process.number)
        except OSError:
            while True:
                self._process.receive()  # raises what ended the process


class _Done(NamedTuple, Generic[R]):
    """The last message of the process."""

    result: R


def _consume(
    consume: Callable[[Iterator[tuple[Lent, Given]]], R], places: list[memoryview], pipe: Connection
) -> None:
    """Be the process."""
    answer: _Done[R] | Exception
    try:
        answer = _Done(consume(_items(pipe, places)))
    except _NoMoreNeeded:
        return
    except Exception as error:  # noqa: BLE001 - raised again by the other process, which has no trace of it
        error.add_note(traceback.format_exc())
        answer = error
    with suppress(OSError):
        pipe.send(answer)


def _items(pipe: Connection, places: list[memoryview]) -> Iterator[tuple[Any, Any]]:
    """Yield items, and say when each is done."""
    told: _Told | None
    try:
        while (told := pipe.recv()) is not None:
            yield told.value(places[told.place] if told.place >= 0 else _own_memory(pipe)), told.given
            pipe.send(None)
    except (EOFError, OSError):
        raise _NoMoreNeeded from None


def _own_memory(pipe: Connection) -> memoryview:
    """Return the memory that an item has for itself."""
    descriptor = recv_handle(pipe)
    try:
        return memoryview(mmap.mmap(descriptor, 0))
    finally:
        os.close(descriptor)
