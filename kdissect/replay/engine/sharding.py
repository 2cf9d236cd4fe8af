"""Who plays what: captured connections dealt out to processes, those that belong together to the same one."""

from collections.abc import Iterable
from dataclasses import replace

from kdissect.files import processor_count
from kdissect.replay.load.replay_input import ReplayInput, ReplayItem
from kdissect.replay.settings import ReplaySettings

LEAST = 20_000  # requests for which another process is worth its start


def cores() -> int:
    """Say how many processors there are to be used."""
    return processor_count()


def shard_requests(loaded: ReplayInput, settings: ReplaySettings) -> list[list[ReplayItem]]:
    """Give the requests of each process, in their order; what is never sent is the first one's."""
    requests: dict[int, int] = {}
    for item in loaded.items:
        if item.refusal is None:
            requests[item.request.connection] = requests.get(item.request.connection, 0) + 1
    families = _families(loaded, list(requests))
    count = min(_wanted(sum(requests.values()), settings), len(families) or 1)
    loads, owners = [0] * count, dict[int, int]()
    for family in sorted(families, key=lambda family: -sum(requests[each] for each in family)):
        least = loads.index(min(loads))
        loads[least] += sum(requests[connection] for connection in family)
        owners |= dict.fromkeys(family, least)
    shares: list[list[ReplayItem]] = [[] for _ in range(count)]
    for item in loaded.items:
        shares[owners.get(item.request.connection, 0) if item.refusal is None else 0].append(item)
    return shares


def _wanted(requests: int, settings: ReplaySettings) -> int:
    wanted = settings.processes or min(cores(), requests // LEAST)
    return max(min(wanted, settings.caps.connections or wanted), 1)


def _families(loaded: ReplayInput, connections: list[int]) -> list[list[int]]:
    def join(index: int, others: Iterable[int]) -> None:
        for other in others:
            loaded.connection_groups.unite(
                loaded.items[index].request.connection, loaded.items[other].request.connection
            )

    for index, earlier in loaded.after.items():
        join(index, earlier)
    for index, tried in loaded.retries.items():
        for attempts in tried.values():
            join(index, attempts)
    for index, repeated in loaded.repeats.items():
        for records in repeated.values():
            for attempts in records.values():
                join(index, attempts)
    return loaded.connection_groups.families(connections)


def worker_settings(settings: ReplaySettings, number: int, shares: list[list[ReplayItem]]) -> ReplaySettings:
    """Give a process its part of what the run may not exceed, and of what its breaker waits for."""
    count = len(shares)
    if count == 1:
        return settings
    part = max(len(shares[number]), 1) / max(sum(len(share) for share in shares), 1)
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
