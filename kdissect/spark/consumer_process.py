"""A forked process that consumes the items which this process makes, and returns one result in the end.

Threads of Python take turns at all that is not in compiled code: with engine and tables in two threads, one
connection took as long as with one thread, at 1.55 times the processor time a second. Processes do not wait
for each other.

An item has two parts, both pickled. Arrays of the one that is lent lie in memory that the processes share, in
two places that are used in turn: while an item is consumed the next one is made and put aside. The part that
is given may be kept. A value that is lent and larger than a place goes through the pipe, too. The process
ends when its pipe ends, however the other one has ended.
"""

import gc
import mmap
import multiprocessing
import pickle
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import accumulate
from multiprocessing.connection import Connection
from typing import Any, Generic, NamedTuple, Self, TypeVar

PLACES = 2
PLACE_BYTES = 12 << 20
ALIGNED = (
    64  # bytes: compiled loops take only arrays that are aligned, and Arrow likes whole lines of the cache
)

Lent = TypeVar("Lent")
Given = TypeVar("Given")
R = TypeVar("R")


class ConsumerLostError(Exception):
    """The process that consumes items has died."""


class _NoMoreNeeded(Exception):
    """The process that hands over items has ended."""


class _Told(NamedTuple):
    """A value that is lent, pickled. Its arrays follow each other in the next place."""

    lent: bytes
    lengths: list[int]


class _SharedPlaces:
    """Memory for arrays; both sides use its places in turn."""

    def __init__(self) -> None:
        self._memory = memoryview(mmap.mmap(-1, PLACES * PLACE_BYTES))
        self._turn = 0

    def put(self, lent: object) -> _Told:
        """Put the arrays of a value into the next place."""
        place = self._next()
        buffers: list[pickle.PickleBuffer] = []
        packed = pickle.dumps(lent, protocol=5, buffer_callback=buffers.append)
        arrays = [buffer.raw() for buffer in buffers]
        lengths = [len(array) for array in arrays]
        starts = _starts(lengths)
        if starts[-1] > len(place):
            return _Told(pickle.dumps(lent, protocol=5), [])
        for start, array in zip(starts, arrays, strict=False):
            place[start : start + len(array)] = array
        return _Told(packed, lengths)

    def take(self, told: _Told) -> object:
        """Return the value of which `put` told this; its arrays are those in the place."""
        place = self._next()
        starts = _starts(told.lengths)
        arrays = [place[start : start + length] for start, length in zip(starts, told.lengths, strict=False)]
        return pickle.loads(told.lent, buffers=arrays)  # noqa: S301 - of the process that forked this one

    def _next(self) -> memoryview:
        first = self._turn % PLACES * PLACE_BYTES
        self._turn += 1
        return self._memory[first : first + PLACE_BYTES]


def _starts(lengths: list[int]) -> list[int]:
    """Return where arrays of these lengths begin, and where they end together."""
    return list(accumulate((-(-length // ALIGNED) * ALIGNED for length in lengths), initial=0))


class ConsumerProcess(Generic[Lent, Given, R]):
    """A process that runs `consume` on an iterator over what `put` is given. Leaving the context ends it.

    A value that is lent is valid in `consume` until the next item is asked for.
    """

    def __init__(self, consume: Callable[[Iterator[tuple[Lent, Given]]], R]) -> None:
        fork = multiprocessing.get_context("fork")
        self._pipe, there = fork.Pipe()
        self._places, self._under_way = _SharedPlaces(), 0
        gc.freeze()  # collecting garbage would copy the memory that both share
        self._process = fork.Process(
            target=_run, args=(consume, there, self._pipe, self._places), daemon=True
        )
        self._process.start()
        there.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.join()
        self._pipe.close()
        gc.unfreeze()

    def put(self, lent: Lent, given: Given) -> None:
        """Hand over an item; wait while two others are under way. Raise what `consume` raised."""
        if self._under_way == PLACES:
            self._received()
            self._under_way -= 1
        self._send((self._places.put(lent), given))
        self._under_way += 1

    def result(self) -> R:
        """Return what `consume` returns when there are no more items. Raise what it raised."""
        self._send(None)
        while (done := self._received()) is None:
            pass
        return done.result

    def _send(self, told: tuple[_Told, Given] | None) -> None:
        try:
            self._pipe.send(told)
        except OSError:
            while True:
                self._received()  # raises what ended the process

    def _received(self) -> "_Done[R] | None":
        try:
            answer: _Done[R] | Exception | None = self._pipe.recv()
        except (EOFError, OSError):
            raise ConsumerLostError("the process that makes tables has died") from None
        if isinstance(answer, Exception):
            raise answer
        return answer


class _Done(NamedTuple, Generic[R]):
    """The last message of the process."""

    result: R


def _run(
    consume: Callable[[Iterator[tuple[Lent, Given]]], R],
    pipe: Connection,
    other_end: Connection,
    places: _SharedPlaces,
) -> None:
    """Be the process."""
    other_end.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
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


def _items(pipe: Connection, places: _SharedPlaces) -> Iterator[tuple[Any, Any]]:
    """Yield items, and say when each is done."""
    try:
        while (told := pipe.recv()) is not None:
            yield places.take(told[0]), told[1]
            pipe.send(None)
    except (EOFError, OSError):
        raise _NoMoreNeeded from None
