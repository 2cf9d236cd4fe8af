"""How rules turn observations into evidence: groups by key, spells of time, sums, names of brokers."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from kdissect.report.findings.observations import ClientTimes, Observation
from kdissect.report.model.findings import Evidence
from kdissect.report.query.topic_names import Address
from kdissect.report.wording import listed
from kdissect.text import format_address

SERVERS_NAMED = 2


def observed(subject: str, detail: str, observations: Sequence[Observation]) -> Evidence:
    """Return evidence from observations, located where the earliest is."""
    first = min(observations, key=lambda observation: observation.first_ns)
    return Evidence(
        subject=subject,
        detail=detail,
        count=count_exchanges(observations),
        first_time_ns=first.first_ns,
        last_time_ns=max(observation.last_ns for observation in observations),
        place=first.location,
    )


def observed_times(detail: str, times: ClientTimes) -> Evidence:
    """Return the evidence that `observed` returns for the same observations of a client."""
    return Evidence(
        subject=times.client,
        detail=detail,
        count=int(times.exchanges.sum()),
        first_time_ns=times.first.first_ns,
        last_time_ns=int(times.last_ns.max()),
        place=times.first.location,
    )


def group_by(
    observations: Iterable[Observation], key: Callable[[Observation], tuple[str, ...]]
) -> list[tuple[tuple[str, ...], list[Observation]]]:
    """Return observations by key, most exchanges first."""
    groups: dict[tuple[str, ...], list[Observation]] = {}
    for observation in observations:
        groups.setdefault(key(observation), []).append(observation)
    return sorted(groups.items(), key=lambda item: (-count_exchanges(item[1]), item[0]))


def spells(observations: Iterable[Observation], pause_ns: int) -> Iterator[list[Observation]]:
    """Yield observations in the order of time, divided where nothing happened for longer than a pause."""
    spell: list[Observation] = []
    latest = 0
    for observation in sorted(observations, key=lambda observation: observation.first_ns):
        if spell and observation.first_ns - latest > pause_ns:
            yield spell
            spell = []
        latest = max(latest, observation.last_ns) if spell else observation.last_ns
        spell.append(observation)
    if spell:
        yield spell


def server_names(observations: Iterable[Observation]) -> str:
    """Return the addresses of the brokers of observations, as many as fit a line."""
    return address_texts({(one.location.server_host, one.location.server_port) for one in observations})


def address_texts(servers: Iterable[Address]) -> str:
    """Return addresses of brokers, as many as fit a line."""
    return listed(sorted({format_address(host or "?", port) for host, port in servers}), SERVERS_NAMED)


def count_exchanges(observations: Iterable[Observation]) -> int:
    """Return the number of exchanges."""
    return sum(observation.exchanges for observation in observations)


def span_ns(observations: Sequence[Observation]) -> int:
    """Return the nanoseconds from the first exchange to the last."""
    return max(observation.last_ns for observation in observations) - min(
        observation.first_ns for observation in observations
    )


def count_requests(errors: Iterable[Observation]) -> int:
    """Return the number of requests that errors answer: one that fails for twelve partitions is one.

    Each counts at its first partition. If that is not among the errors, the partition with the most
    requests tells.
    """
    partitions: Counter[tuple[int | None, int | None, str | None]] = Counter()
    requests = 0
    for error in errors:
        partitions[error.api_key, error.code, error.partition] += error.exchanges
        requests += error.amount
    return max(requests, max(partitions.values(), default=0))
