"""Which process sends what: captured connections that belong together go to the same process.

Connections belong together if a request of one has to wait for one of another, or if they share a producer,
a group or the offsets of a topic (`connection_groups`, order, retries). Such a component is never cut,
since processes and machines tell each other nothing while they send. It has a weight, and the ties that
hold it together: a plan names those of a large one, since it bounds what more processes can give.

`pack` gives components to a number of senders, the heaviest first, each to the one that has least by then.
"""

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from kdissect.files import processor_count
from kdissect.replay.load.connection_groups import Tie
from kdissect.replay.load.replay_input import ReplayInput
from kdissect.replay.load.replay_items import ReplayItem, column_blocks
from kdissect.replay.load.request_table import Chosen
from kdissect.replay.settings import ReplaySettings

BYTES_PER_REQUEST = 20_000  # that cost a sender as much as one request more: 21 µs, at about 1 GB/s
ORDER = Tie("order", "requests that wait for others")


@dataclass(frozen=True, slots=True)
class TiedConnections:
    """How many connections of a component share one thing."""

    tie: Tie
    connections: int


@dataclass(frozen=True, slots=True)
class Component:
    """Connections that one process must send."""

    connections: tuple[int, ...]
    requests: int
    size: int  # bytes of these requests
    ties: tuple[TiedConnections, ...] = ()  # the one of most connections first

    @property
    def weight(self) -> float:
        """Return the cost of sending it, in requests."""
        return self.requests + self.size / BYTES_PER_REQUEST


_KNOWN: "WeakKeyDictionary[ReplayInput, tuple[Component, ...]]" = WeakKeyDictionary()


def components_of(loaded: ReplayInput) -> tuple[Component, ...]:
    """Return the components of what is sent, the heaviest first.

    They are put together once, since a plan and a run of the same capture both need them.
    """
    known = _KNOWN.get(loaded)
    if known is None:
        known = _KNOWN[loaded] = _put_together(loaded)
    return known


def _put_together(loaded: ReplayInput) -> tuple[Component, ...]:
    requests, size = Counter[int](), Counter[int]()
    for connections, sizes, sent in column_blocks(loaded.items, "connection", "frame_size", "sent"):
        numbers, places = np.unique(connections[sent], return_inverse=True)
        requests.update(dict(zip(numbers.tolist(), np.bincount(places).tolist(), strict=True)))
        size_of = np.bincount(places, sizes[sent]).astype(np.int64)
        size.update(dict(zip(numbers.tolist(), size_of.tolist(), strict=True)))
    waiting = _unite_by_order(loaded)
    groups = loaded.connection_groups.groups(requests)
    owners = {connection: number for number, group in enumerate(groups) for connection in group}
    ties: list[list[TiedConnections]] = [[] for _ in groups]
    for tie, users in (*loaded.connection_groups.ties(), (ORDER, waiting)):
        counts = Counter(owners[connection] for connection in users if connection in owners)
        for number, count in counts.items():
            if count > 1:
                ties[number].append(TiedConnections(tie, count))
    components = [
        Component(
            tuple(group),
            sum(requests[connection] for connection in group),
            sum(size[connection] for connection in group),
            tuple(sorted(ties[number], key=lambda each: -each.connections)),
        )
        for number, group in enumerate(groups)
    ]
    return tuple(sorted(components, key=lambda component: -component.weight))


def pack(components: Sequence[Component], count: int) -> dict[int, int]:
    """Return which of `count` senders each connection belongs to. Components are the heaviest first."""
    loads, owners = [0.0] * count, dict[int, int]()
    for component in components:
        lightest = loads.index(min(loads))
        loads[lightest] += component.weight
        owners |= dict.fromkeys(component.connections, lightest)
    return owners


def _unite_by_order(loaded: ReplayInput) -> set[int]:
    """Unite the connections of requests that wait for others. Return those that were united."""
    united: set[int] = set()

    def join(index: int, others: Iterable[int]) -> None:
        connection = loaded.items[index].request.connection
        for other in others:
            earlier = loaded.items[other].request.connection
            if earlier != connection:
                united.update((connection, earlier))
                loaded.connection_groups.unite(connection, earlier)

    for index, earlier in loaded.after.items():
        join(index, earlier)
    for index, retried in loaded.retries.items():
        for attempts in retried.values():
            join(index, attempts)
    for index, repeated in loaded.repeats.items():
        for records in repeated.values():
            for attempts in records.values():
                join(index, attempts)
    return united


LEAST_REQUESTS = 20_000  # for which another process is worth its start


def shard_requests(
    loaded: ReplayInput, settings: ReplaySettings, components: Sequence[Component]
) -> list[Chosen[ReplayItem]]:
    """Return the requests of each process, in their order; the first one also has what is never sent.

    `components` are those of all that is sent (`components_of`).
    """
    count = min(_wanted(sum(each.requests for each in components), settings), len(components) or 1)
    owners = pack(components, count)
    return deal(loaded.items, owners, count)


def deal(items: Sequence[ReplayItem], owners: Mapping[int, int], count: int) -> list[Chosen[ReplayItem]]:
    """Return the requests of each of `count` senders, by the owners of connections.

    The first one also has what is never sent.
    """
    shares, begin = [array("i") for _ in range(count)], 0
    for connections, sent in column_blocks(items, "connection", "sent"):
        numbers, places = np.unique(connections, return_inverse=True)
        owner = np.array([owners.get(connection, 0) for connection in numbers.tolist()], np.int32)[places]
        owner[~sent] = 0
        for number, share in enumerate(shares):
            share.frombytes((begin + np.flatnonzero(owner == number)).astype(np.int32).tobytes())
        begin += len(connections)
    return [Chosen(items, share) for share in shares]


def _wanted(requests: int, settings: ReplaySettings) -> int:
    """Return how many processes the settings ask for, or so many requests are worth."""
    wanted = settings.processes or min(processor_count(), requests // LEAST_REQUESTS)
    return max(min(wanted, settings.caps.connections or wanted), 1)


def worker_settings(
    settings: ReplaySettings, number: int, shards: Sequence[Sequence[ReplayItem]]
) -> ReplaySettings:
    """Return the settings of a process: its part of the caps, and of what its circuit breaker waits for."""
    if len(shards) == 1:
        return settings
    return part_settings(settings, number, [shard_size(shard) for shard in shards])


class ShardSize(NamedTuple):
    """How much one sender sends."""

    requests: int
    size: int  # bytes


def shard_size(items: Sequence[ReplayItem]) -> ShardSize:
    """Return how much of some requests is sent."""
    requests = size = 0
    for sizes, sent in column_blocks(items, "frame_size", "sent"):
        requests, size = requests + int(sent.sum()), size + int(sizes[sent].sum())
    return ShardSize(requests, size)


def part_settings(settings: ReplaySettings, number: int, parts: Sequence[ShardSize]) -> ReplaySettings:
    """Return the settings of one of several senders, whose caps together are those of the run."""
    count, own = len(parts), parts[number]
    of_requests = max(own.requests, 1) / max(sum(part.requests for part in parts), 1)
    of_bytes = max(own.size, 1) / max(sum(part.size for part in parts), 1)
    caps, breaker = settings.caps, settings.breaker
    most = caps.connections
    return replace(
        settings,
        caps=replace(
            caps,
            requests_per_second=caps.requests_per_second and caps.requests_per_second * of_requests,
            bytes_per_second=caps.bytes_per_second and caps.bytes_per_second * of_bytes,
            connections=most and most // count + (number < most % count),
            bytes_in_all=caps.bytes_in_all and int(caps.bytes_in_all * of_bytes),
        ),
        breaker=replace(breaker, least_answers=max(int(breaker.least_answers * of_requests), 1)),
    )
