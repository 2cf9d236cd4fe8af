"""Settings of a replay, as values: nothing here reads a file, a clock or the environment."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from kdissect.exchanges.filter import ExchangeFilter

Address = tuple[str, int]
DRY_TARGET: Address = ("dry-target.invalid", 9092)
DRY_CLUSTER = "dry-target"
"""The address and the cluster id of a target in memory (see `engine.dry_target`)."""


class Pace(StrEnum):
    """When a request is sent."""

    SCHEDULE = "schedule"  # at its captured time, counted from the start and divided by the speed
    THINK = "think"  # as long after the response that its client had seen last as in the capture
    ASAP = "asap"  # as soon as the one before it allows


class Groups(StrEnum):
    """How much of consumer groups is replayed."""

    OFF = "off"
    SIMPLE = "simple"  # commits without membership
    FULL = "full"  # members join, and the leader that the target names assigns
    AUTO = "auto"  # what the capture needs: full with members, else simple with commits, else off


class Offsets(StrEnum):
    """How positions are translated."""

    AUTO = (
        "auto"  # by what the run produced, else by what it fetched, else by the distance to the log's start
    )
    IDENTITY = "identity"  # the target is a true copy


class Timestamps(StrEnum):
    """Treatment of record timestamps."""

    KEEP = "keep"
    SHIFT = "shift"  # by the distance between the capture's start and the run's
    NOW = "now"  # the moment of sending


@dataclass(frozen=True, slots=True)
class Credentials:
    """How the replayer logs in to the target; never with what was captured."""

    mechanism: str
    user: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Tls:
    """How the target's certificate is checked."""

    authority: str | None = None  # file with certificates to trust; None: the system's
    certificate: str | None = None  # our own, with its key
    insecure: bool = False
    key_password: str | None = field(default=None, repr=False)


def everything(_start_ns: int) -> ExchangeFilter:
    """Return the filter that selects all requests of a capture."""
    return ExchangeFilter()


@dataclass(frozen=True, slots=True)
class Caps:
    """Limits of the run; None means no limit."""

    requests_per_second: float | None = None
    bytes_per_second: float | None = None
    connections: int | None = None
    duration_s: float | None = None
    bytes_in_all: int | None = None


@dataclass(frozen=True, slots=True)
class Breaker:
    """When a run stops itself; shares and counts are those of the last 10 s."""

    error_share: float = 0.5  # of the responses: errors that the capture did not have
    least_answers: int = 200  # below this many responses the shares say nothing
    refusals: int = 10  # connections refused one after another
    throttled_share: float = 0.5  # of the responses
    lag_s: float = 30.0  # that the replayer itself is behind its schedule


@dataclass(frozen=True, slots=True)
class ReplaySettings:
    """The settings of one run."""

    target: tuple[Address, ...]
    run: str = "run"
    prefix: str = "replay-"
    topic_map: dict[str, str] = field(default_factory=dict)
    topic_ids: dict[bytes, str] = field(default_factory=dict)  # names that the capture does not show
    group_map: dict[str, str] = field(default_factory=dict)
    transactional_map: dict[str, str] = field(default_factory=dict)
    dry_partitions: int = 0  # of each topic of a target in memory; 0: the target is a cluster
    allowed_hosts: tuple[str, ...] = ()  # beside the target's own: names, addresses, networks
    known_target: str | None = None  # its cluster id, given by the user
    allowed_apis: frozenset[int] = frozenset()
    allow_lossy: bool = False
    groups: Groups = Groups.OFF
    groups_chosen: bool = False  # by what the capture needs
    offsets: Offsets = Offsets.AUTO
    timestamps: Timestamps = Timestamps.KEEP
    pace: Pace = Pace.SCHEDULE
    speed: float = 1.0
    ramp_s: float = 0.0  # until the speed is reached
    loops: int = 1
    processes: int = 0  # that send; 0: one for each core, if there is enough work
    max_gap_ns: int | None = None
    filter: Callable[[int], ExchangeFilter] = (
        everything  # which requests are sent, given the capture's start in ns
    )
    caps: Caps = Caps()
    breaker: Breaker = Breaker()
    credentials: Credentials | None = None
    plaintext_credentials: bool = False  # they may be sent without TLS
    tls: Tls | None = None
    answer_deadline_s: float = 30.0  # how long a response is waited for
    dependency_deadline_s: float = 45.0  # for other requests: most of them wait for a response
    client_id_prefix: str = ""
