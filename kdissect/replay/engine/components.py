"""What may be dealt out: captured connections in components, of which none waits for another.

In: what the load has learnt (`connection_groups`, order, retries). Out: components with their weight and with
what ties their connections together. Processes and machines tell each other nothing while they send, so a
component is never cut: a plan names the ties of a large one, since it bounds what more processes can give.

`pack` gives components to a number of senders, the heaviest first, each to the one that has least by then.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from kdissect.replay.load.connection_groups import Tie
from kdissect.replay.load.replay_input import ReplayInput

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
        """What sending it costs, in requests."""
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
    requests: Counter[int] = Counter()
    size: Counter[int] = Counter()
    sent = loaded.items.sent()
    columns = (loaded.items.column(name)[sent].tolist() for name in ("connection", "frame_size"))
    for connection, bytes_sent in zip(*columns, strict=True):
        requests[connection] += 1
        size[connection] += bytes_sent
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
