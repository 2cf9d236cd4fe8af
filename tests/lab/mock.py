"""librdkafka's mock cluster: brokers in this process, ready at once, without Java.

Good enough to be asked and to answer; it keeps no promise of a real broker about storage or replication.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

from confluent_kafka import Producer


class MockCluster:
    """A context manager: `brokers` mock brokers on loopback; `bootstrap` and `ports` tell where."""

    def __init__(self, brokers: int = 3) -> None:
        self._count = brokers
        self.ports: list[int] = []

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports)

    def __enter__(self) -> Self:
        # The mock cluster lives as long as the client instance that was told to make it.
        self._owner: Producer | None = Producer(
            {"test.mock.num.brokers": str(self._count), "client.id": "mock-owner"}
        )
        self.ports = sorted(broker.port for broker in self._owner.list_topics(timeout=10).brokers.values())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._owner = None
