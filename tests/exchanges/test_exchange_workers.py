"""Processes that make texts of exchanges: order, failures, and the same text as one process writes."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kdissect.cli import dump as command
from kdissect.cli.main import main
from kdissect.exchanges import exchange_workers
from kdissect.exchanges.exchange import connection_of, unpack
from kdissect.exchanges.exchange_workers import (
    BATCH_BYTES,
    BATCH_EXCHANGES,
    FIRST_EXCHANGES,
    LARGE_BYTES,
    PLACE_BYTES,
    ConnectionHeading,
    OrderedWorkers,
    packed_batches,
)
from kdissect.forked_process import ProcessLostError
from kdissect.jit.rows import row_size
from kdissect.streams.flow_state import ExchangeRow

STEADY = Path(__file__).parents[2] / "captures" / "steady.pcapng"


class Facts:
    def identity(self, connection: int) -> int:
        return connection + 1

    def addresses(self, connection: int) -> tuple[str, str]:
        return "client", "server"

    def mechanism(self, connection: int) -> str | None:
        return None


def work(number: int) -> tuple[int, bytes]:
    if number == -1:
        raise ValueError("no number")
    if number == -2:
        os._exit(1)
    return number, text_of(number)


def text_of(number: int) -> bytes:
    """Return a text; some are longer than the place that they may have."""
    return bytes([number]) * (PLACE_BYTES + 1 if number % 7 == 3 else number * 1000)


def test_results_come_in_the_order_of_the_items() -> None:
    def results() -> Iterator[tuple[int, bytes | memoryview]]:
        with OrderedWorkers(work, 3) as workers:
            for number in range(40):
                yield from workers.put(number)
            yield from workers.rest()

    numbers = [number for number, text in results() if text == text_of(number)]
    assert numbers == list(range(40))


@pytest.mark.parametrize(("number", "error"), [(-1, ValueError), (-2, ProcessLostError)])
def test_a_failure_reaches_the_reader(number: int, error: type[Exception]) -> None:
    def results() -> Iterator[tuple[int, bytes | memoryview]]:
        with OrderedWorkers(work, 2) as workers:
            for item in (1, 2, number, 3):
                yield from workers.put(item)
            yield from workers.rest()

    with pytest.raises(error):
        list(results())


def packed(frame_bytes: int) -> bytes:
    return bytes(row_size(ExchangeRow) + frame_bytes)


def test_batches_are_bounded_and_the_first_is_small() -> None:
    batches = list(packed_batches([packed(0)] * 3000, Facts()))
    assert [len(batch.exchanges) for batch in batches[:2]] == [FIRST_EXCHANGES, BATCH_EXCHANGES]
    assert sum(len(batch.exchanges) for batch in batches) == 3000
    assert batches[0].connections == {0: ConnectionHeading(1, ("client", "server"), None)}
    heavy = list(packed_batches([packed(BATCH_BYTES // 4)] * 9, Facts()))
    assert max(len(batch.exchanges) for batch in heavy) == 4
    assert [batch.is_large for batch in packed_batches([packed(LARGE_BYTES)], Facts())] == [True]


def test_the_connection_is_read_without_unpacking() -> None:
    one = packed(0)
    assert connection_of(one) == unpack(one).connection


@pytest.mark.parametrize(
    "options", [["--format", "jsonl"], ["--brief", "--topic", "orders"], ["--anonymize"]]
)
def test_workers_write_what_one_process_writes(
    options: list[str], capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = []
    monkeypatch.setenv("KDISSECT_ANONYMIZE_KEY", "key")
    for worth, processes in ((1, 2), (1, 1)):
        monkeypatch.setattr(exchange_workers, "WORTH_WORKERS", worth)
        for module in (command, exchange_workers):
            monkeypatch.setattr(module, "processor_count", lambda count=processes: count)
        assert main(["dump", str(STEADY), *options]) == 0
        texts.append(capfdbinary.readouterr().out)
    assert texts[0] == texts[1]
    assert texts[0].count(b"\n") > FIRST_EXCHANGES
