"""Job of a client program, and its own report of the result.

A `Job` travels as a JSON file; the client writes its own counts beside it when it has closed its connections.
The counts come from the client library's callbacks, so they owe nothing to the capture.
"""

from __future__ import annotations

import json
import signal
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Job:
    """One client's work. `config` holds the library's own settings, in the library's own words."""

    client_id: str
    role: str  # produce | consume | transact | transform | share | administer
    bootstrap: str
    topics: tuple[str, ...]
    records: int = 0
    per_second: float = 100.0
    burst: int = 1  # records sent together before the next pause
    value_bytes: int = 100
    headers: bool = False  # whether records carry headers (message formats 0 and 1 cannot)
    group: str = ""
    rest_ms: float = 0.0  # how long a librdkafka consumer or transactor rests after each record
    config: dict[str, str] = field(default_factory=dict)

    @staticmethod
    def read(path: str) -> Job:
        asked = json.loads(Path(path).read_text())
        return Job(**{**asked, "topics": tuple(asked["topics"])})

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=1))

    def paced(self) -> Iterator[int]:
        """Yield the number of each record to send, sleeping so that `per_second` is kept."""
        start = time.monotonic()
        for number in range(self.records):
            if number and number % self.burst == 0:
                time.sleep(max(0.0, start + number / self.per_second - time.monotonic()))
            if stopping.requested:
                return
            yield number

    def key(self, number: int) -> bytes:
        return f"{self.client_id}-{number}".encode()

    def value(self, number: int) -> bytes:
        """A small JSON text of `value_bytes` bytes that compresses about as well as real events do."""
        start = f'{{"sender":"{self.client_id}","number":{number},"at":{time.time_ns()},"text":"'
        words = " ".join(f"item{(number * 31 + step * 7) % 997}" for step in range(self.value_bytes // 6))
        return (start + words)[: max(self.value_bytes - 2, len(start))].encode() + b'"}'


@dataclass(slots=True)
class Outcome:
    """A client's own counts: records delivered or received per topic, and failures by error name."""

    library: str
    version: str
    records: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    assignments: int = 0
    commits: int = 0

    def write(self, job_path: str) -> None:
        said = {part.name: getattr(self, part.name) for part in fields(self)}
        Path(job_path).with_suffix(".outcome").write_text(json.dumps(said))


class _Stopping:
    """True if the process was asked to end (SIGTERM): consumers then leave their group and close."""

    requested = False

    def listen(self) -> None:
        signal.signal(signal.SIGTERM, self._note)

    def _note(self, _signal: int, _frame: object) -> None:
        self.requested = True


stopping = _Stopping()
