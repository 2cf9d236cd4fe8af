"""Counts that a pool of connections keeps for the report of a run."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class PoolCounters:
    """Counts of requests for the replayer itself, and of events of its connections."""

    synthetic: dict[str, int] = field(default_factory=dict)  # requests by API
    opened: int = 0
    refused: int = 0
    refused_in_a_row: int = 0
    last_refusal: str = ""  # the address that refused last, and why
    refused_since_ns: int = 0  # the first of these, on the clock of the run
    closed_by_peer: int = 0
    throttled: int = 0  # responses with a throttle time
    throttle_ms: int = 0

    def add_synthetic(self, name: str, times: int = 1) -> None:
        """Count a request of the replayer itself."""
        self.synthetic[name] = self.synthetic.get(name, 0) + times

    def add(self, other: "PoolCounters") -> None:
        """Add what another process counted."""
        for name, times in other.synthetic.items():
            self.add_synthetic(name, times)
        self.opened += other.opened
        self.refused += other.refused
        self.closed_by_peer += other.closed_by_peer
        self.throttled += other.throttled
        self.throttle_ms += other.throttle_ms
