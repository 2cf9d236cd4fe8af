"""Exchanges become texts in several processes, and the texts come out in the order of the exchanges.

One process reads captures; reading messages takes most of the time. So batches of packed exchanges go to
forked workers in turn, and their results are awaited in the same turn. A text is what the caller makes of a
batch: the lines of a dump, or what a slice needs of its exchanges. The work under way is bounded:
two batches for each worker, each of a thousand exchanges or a megabyte. A larger exchange never goes to a
worker (`PackedBatch.is_large`).

Texts come back in memory that a worker and the reading process share. Through a pipe each byte would be
copied five times more, and the lines of a million exchanges take 1.5 GB.
"""

import mmap
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from queue import SimpleQueue
from threading import Thread
from typing import Generic, NamedTuple, Protocol, Self, TypeAlias, TypeVar

from kdissect.exchanges.exchange import connection_of
from kdissect.files import processor_count
from kdissect.forked_process import ForkedProcess, frozen_garbage

BATCH_EXCHANGES = 1 << 10
FIRST_EXCHANGES = 1 << 5  # of the first batch: its text should appear at once
BATCH_BYTES = 1 << 20
LARGE_BYTES = 8 << 20
WORTH_WORKERS = 4096  # exchanges, which one process writes in the time that others take to start
DEPTH = 2  # batches that each worker has at a time, so that none waits for the reader

PLACE_BYTES = 4 << 20  # for the text of a batch, which is larger only if frames repeat much in it

T = TypeVar("T")
Work: TypeAlias = Callable[[T], tuple[int, bytes]]
"""Returns a number of exchanges and their text."""
Text: TypeAlias = bytes | memoryview


class ConnectionReader(Protocol):
    """Facts about connections in a heading: an `ExchangeReader` knows it."""

    def identity(self, connection: int) -> int:
        """Return the public number of a connection."""

    def addresses(self, connection: int) -> tuple[str, str]:
        """Return the addresses of client and server."""

    def mechanism(self, connection: int) -> str | None:
        """Return the SASL mechanism of a connection with raw tokens."""


class ConnectionHeading(NamedTuple):
    """Facts in the heading of an exchange about its connection."""

    identity: int
    addresses: tuple[str, str]
    mechanism: str | None


@dataclass(frozen=True, slots=True)
class PackedBatch:
    """Packed exchanges (see `exchanges.exchange`), with the facts of their connections by row."""

    exchanges: list[bytes]
    connections: dict[int, ConnectionHeading]

    @property
    def is_large(self) -> bool:
        """Return whether its text would take too much memory to have several of them under way."""
        return sum(map(len, self.exchanges)) > LARGE_BYTES


def packed_batches(exchanges: Iterable[bytes], reader: ConnectionReader) -> Iterator[PackedBatch]:
    """Yield exchanges in batches, a small one first."""
    batch, held, most = PackedBatch([], {}), 0, FIRST_EXCHANGES
    for packed in exchanges:
        connection = connection_of(packed)
        if connection not in batch.connections:
            batch.connections[connection] = ConnectionHeading(
                reader.identity(connection), reader.addresses(connection), reader.mechanism(connection)
            )
        batch.exchanges.append(packed)
        held += len(packed)
        if len(batch.exchanges) >= most or held >= BATCH_BYTES:
            yield batch
            batch, held, most = PackedBatch([], {}), 0, BATCH_EXCHANGES
    if batch.exchanges:
        yield batch


class BatchFacts:
    """The facts of the connections of one batch after the other, as an `ExchangeReader` tells them."""

    def __init__(self, file_name: Callable[[int], str]) -> None:
        self.file_name = file_name
        self.connections: Mapping[int, ConnectionHeading] = {}

    def identity(self, connection: int) -> int:
        """Return the public number of a connection."""
        return self.connections[connection].identity

    def addresses(self, connection: int) -> tuple[str, str]:
        """Return the addresses of client and server."""
        return self.connections[connection].addresses

    def mechanism(self, connection: int) -> str | None:
        """Return the SASL mechanism of a connection with raw tokens."""
        return self.connections[connection].mechanism


class SharedTexts:
    """Memory that a worker shares with the reading process: a place for each text that may be under way.

    Both sides use the places in turn. A worker has at most DEPTH items, and the reading process is done with
    a text before it hands over another item. So a place is free when its turn comes.
    """

    def __init__(self) -> None:
        self._memory = memoryview(mmap.mmap(-1, DEPTH * PLACE_BYTES))
        self._turn = 0

    def put(self, text: bytes) -> int | bytes:
        """Put a text into the next place. Return its length, or the text itself if it is too long."""
        place = self._next_place()
        if len(text) > len(place):
            return text
        place[: len(text)] = text
        return len(text)

    def take(self, told: int | bytes) -> Text:
        """Return the text of which `put` told this."""
        place = self._next_place()
        return told if isinstance(told, bytes) else place[:told]

    def _next_place(self) -> memoryview:
        first = self._turn % DEPTH * PLACE_BYTES
        self._turn += 1
        return self._memory[first : first + PLACE_BYTES]


class _Child(NamedTuple):
    """One of the processes, as the reading process knows it."""

    process: ForkedProcess
    texts: SharedTexts


class OrderedWorkers(Generic[T]):
    """Forked processes that make texts of items. It is a context manager, and its end is theirs.

    A text that is returned may be used until the next one is asked for.
    """

    def __init__(self, work: Work[T], processes: int) -> None:
        self._children: list[_Child] = []
        self._awaited: deque[_Child] = deque()
        self._turn = 0
        sys.stdout.flush()  # or each process would write what waits there
        self._ends = ExitStack()
        self._ends.enter_context(frozen_garbage())
        for _ in range(processes):
            texts = SharedTexts()
            child = _Child(ForkedProcess(partial(_work, work, texts), "reads messages"), texts)
            self._ends.callback(child.process.end)
            self._children.append(child)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.close()

    def put(self, item: T) -> Iterator[tuple[int, Text]]:
        """Hand over an item. Yield the results of earlier ones that have to make room, in order."""
        while len(self._awaited) >= DEPTH * len(self._children):
            yield self._next()
        child = self._children[self._turn % len(self._children)]
        self._turn += 1
        try:
            child.process.pipe.send(item)
        except OSError:
            raise child.process.lost() from None
        self._awaited.append(child)

    def rest(self) -> Iterator[tuple[int, Text]]:
        """Yield all results that are still awaited, in order."""
        while self._awaited:
            yield self._next()

    def _next(self) -> tuple[int, Text]:
        """Return the next result. Raise what the function raised, and ProcessLostError."""
        child = self._awaited.popleft()
        count, told = child.process.receive()
        return count, child.texts.take(told)


def texts_in_order(batches: Iterable[PackedBatch], texts_of: Work[PackedBatch]) -> Iterator[tuple[int, Text]]:
    """Yield what a function returns for each batch, in order: a number of exchanges and their text.

    A text may be used until the next one is asked for. More than a few exchanges are made into texts by
    several processes.
    """
    workers: OrderedWorkers[PackedBatch] | None = None
    read = 0
    with ExitStack() as ends:
        for batch in batches:
            read += len(batch.exchanges)
            if workers is None and read > WORTH_WORKERS:
                workers = ends.enter_context(OrderedWorkers(texts_of, processor_count()))
            if workers and not batch.is_large:
                yield from workers.put(batch)
                continue
            if workers:
                yield from workers.rest()
            yield texts_of(batch)
        if workers:
            yield from workers.rest()


def _work(work: Work[T], texts: SharedTexts, pipe: Connection) -> None:
    """Be one of the processes."""
    items: SimpleQueue[T | None] = SimpleQueue()
    # The reader hands over the next item while the result of this one waits in the pipe.
    Thread(target=_receive, args=(pipe, items), daemon=True).start()
    while (item := items.get()) is not None:
        result: tuple[int, int | bytes] | Exception
        try:
            count, text = work(item)
            result = count, texts.put(text)
        except Exception as error:  # noqa: BLE001 - raised again by the reading process
            result = error
        try:
            pipe.send(result)
        except OSError:  # the reading process has ended
            return


def _receive(pipe: Connection, items: "SimpleQueue[T | None]") -> None:
    try:
        while True:
            items.put(pipe.recv())
    except (EOFError, OSError):
        items.put(None)
