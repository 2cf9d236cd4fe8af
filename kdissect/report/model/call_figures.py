"""Figures of requests and responses, and latencies with their histogram."""

from dataclasses import dataclass

HISTOGRAM_EDGES_NS = (*(step * 10**power for power in range(4, 11) for step in (1, 2, 5)), 10**11)
"""10 µs, 20 µs, 50 µs … 50 s, 100 s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Times of answered exchanges; percentiles are nearest-rank and within 0.4 %, all else is exact."""

    count: int
    sum_ns: int
    mean_ns: int
    min_ns: int
    p50_ns: int
    p90_ns: int
    p99_ns: int
    p99_9_ns: int
    """The 99.9th percentile."""
    max_ns: int
    variance_to_mean_ns: int
    """Variance divided by mean, from the histogram buckets."""
    p50_between_ns: tuple[int, int] | None
    """The true median lies between these with 95 % confidence; null if there are too few values."""
    p90_between_ns: tuple[int, int] | None
    p99_between_ns: tuple[int, int] | None
    histogram: tuple[int, ...]
    """Number of exchanges by the cells of `histogram_edges_ns`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Figures that are counted for any set of exchanges."""

    exchanges: int
    answered: int
    no_response_expected: int
    unanswered: int
    unanswered_closed: int
    """Part of them: the connection was closed before a response, and the capture lost nothing of it."""
    unanswered_open: int
    """Part of them: the connection was still open at the end of the capture."""
    unanswered_lossy: int
    """Part of them: the capture misses bytes of the connection, so a response may have come."""
    orphan_responses: int
    """Responses whose request was not captured."""
    error_responses: int
    """Responses with an error code, at the top or anywhere inside."""
    errors: int
    """Error codes in all responses, several in a response."""
    faults: int
    """Requests and responses that could not be decoded in full."""
    request_bytes: int
    response_bytes: int
    throttled: int
    throttle_ms: int
    """Sum of the throttle times in responses."""
    throttle_max_ms: int
    pipelined: int
    """Requests sent while another one of the connection was unanswered."""
    in_flight_max: int
    """Most requests outstanding on one connection."""
    acks_none: int
    """Produce requests with acks=0."""
    acks_leader: int
    """Produce requests with acks=1."""
    acks_all: int
    """Produce requests with acks=-1 (all)."""
    transfer_ns: int
    """Sum over responses of the time from their first to their last byte."""
    transfer_max_ns: int
    untimed: int
    """Answered, but with a latency that cannot be: negative or of days."""
    doubtful: int
    """Exchanges on connections of which the capture misses bytes."""
    first_time_ns: int | None
    last_time_ns: int | None
    time_share: float
    """Part of the service time of the whole capture, 0 to 1."""
    service: Latency | None
    """Latencies other than idle waits."""
    idle: Latency | None
    """Long polls and waits for group members, which are not service time."""
