"""Which process sends what.

Captured connections are dealt out, those that belong together to the same process.

Connections belong together if a request of one has to wait for one of another, or if they share a producer, a
group or the offsets of a topic (see `components`).
"""

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from kdissect.files import processor_count
from kdissect.replay.engine.components import Component, pack
from kdissect.replay.load.replay_input import ReplayInput
from kdissect.replay.load.replay_items import ReplayItem, request_column, sent_mask
from kdissect.replay.load.request_table import Chosen
from kdissect.replay.settings import ReplaySettings

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
    places = [array("q") for _ in range(count)]
    connections, sent = request_column(items, "connection").tolist(), sent_mask(items).tolist()
    for place, (connection, is_sent) in enumerate(zip(connections, sent, strict=True)):
        places[owners.get(connection, 0) if is_sent else 0].append(place)
    return [Chosen(items, each) for each in places]


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
    sizes = request_column(items, "frame_size")[sent_mask(items)]
    return ShardSize(len(sizes), int(sizes.sum()))


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
