"""Which process sends what.

Captured connections are dealt out, those that belong together to the same process.

Connections belong together if a request of one has to wait for one of another, or if they share a producer, a
group or the offsets of a topic (see `load.connection_groups`).
"""

from collections.abc import Iterable
from dataclasses import replace

from kdissect.files import processor_count
from kdissect.replay.load.replay_input import ReplayInput, ReplayItem
from kdissect.replay.settings import ReplaySettings

LEAST_REQUESTS = 20_000  # for which another process is worth its start


def shard_requests(loaded: ReplayInput, settings: ReplaySettings) -> list[list[ReplayItem]]:
    """Return the requests of each process, in their order; the first one also has what is never sent."""
    requests: dict[int, int] = {}  # how many each connection has
    for item in loaded.items:
        if item.refusal is None:
            requests[item.request.connection] = requests.get(item.request.connection, 0) + 1
    groups = _groups(loaded, list(requests))
    count = min(_wanted(sum(requests.values()), settings), len(groups) or 1)
    loads, owners = [0] * count, dict[int, int]()
    for group in sorted(groups, key=lambda group: -sum(requests[connection] for connection in group)):
        lightest = loads.index(min(loads))
        loads[lightest] += sum(requests[connection] for connection in group)
        owners |= dict.fromkeys(group, lightest)
    shards: list[list[ReplayItem]] = [[] for _ in range(count)]
    for item in loaded.items:
        shards[owners.get(item.request.connection, 0) if item.refusal is None else 0].append(item)
    return shards


def _wanted(requests: int, settings: ReplaySettings) -> int:
    """Return how many processes the settings ask for, or so many requests are worth."""
    wanted = settings.processes or min(processor_count(), requests // LEAST_REQUESTS)
    return max(min(wanted, settings.caps.connections or wanted), 1)


def _groups(loaded: ReplayInput, connections: list[int]) -> list[list[int]]:
    """Return the connections that belong together."""

    def join(index: int, others: Iterable[int]) -> None:
        connection = loaded.items[index].request.connection
        for other in others:
            loaded.connection_groups.unite(connection, loaded.items[other].request.connection)

    for index, earlier in loaded.after.items():
        join(index, earlier)
    for index, retried in loaded.retries.items():
        for attempts in retried.values():
            join(index, attempts)
    for index, repeated in loaded.repeats.items():
        for records in repeated.values():
            for attempts in records.values():
                join(index, attempts)
    return loaded.connection_groups.groups(connections)


def worker_settings(settings: ReplaySettings, number: int, shards: list[list[ReplayItem]]) -> ReplaySettings:
    """Return the settings of a process: its part of the caps, and of what its circuit breaker waits for."""
    count = len(shards)
    if count == 1:
        return settings
    part = max(len(shards[number]), 1) / max(sum(len(shard) for shard in shards), 1)
    caps, breaker = settings.caps, settings.breaker
    most = caps.connections
    return replace(
        settings,
        caps=replace(
            caps,
            requests_per_second=caps.requests_per_second and caps.requests_per_second * part,
            bytes_per_second=caps.bytes_per_second and caps.bytes_per_second * part,
            connections=most and most // count + (number < most % count),
            bytes_in_all=caps.bytes_in_all and int(caps.bytes_in_all * part),
        ),
        breaker=replace(breaker, least_answers=max(int(breaker.least_answers * part), 1)),
    )
