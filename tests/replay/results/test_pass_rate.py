"""`replay.results.pass_rate`: requests a second of sending, however late the last answer is."""

from kdissect.replay.disposition import Disposition
from kdissect.replay.engine.pass_results import RequestResult, ResultTable
from kdissect.replay.results.pass_rate import (
    SendingTime,
    WorkerRate,
    rate_text,
    sending_time,
    together,
    worker_rates_text,
)

S = 10**9


def test_the_rate_counts_what_was_sent() -> None:
    table = ResultTable()
    for index in range(4):
        table.append(
            RequestResult(index, Disposition.ANSWERED, sent_ns=(1 + index) * S, received_ns=(2 + index) * S)
        )
    table.append_skipped(4, Disposition.POLICY, "off")
    table.append(RequestResult(5, Disposition.ANSWERED, sent_ns=5 * S, received_ns=60 * S))
    assert sending_time(table) == SendingTime(5, 1 * S, 5 * S)
    assert sending_time(table).per_second == 1.0
    assert rate_text(sending_time(ResultTable())) == "0 requests sent to memory, 0 a second"


def test_several_senders_count_from_the_first_request_to_the_last() -> None:
    first, second = SendingTime(11, 1 * S, 6 * S), SendingTime(30, 2 * S, 5 * S)
    assert together([first, second, SendingTime()]) == SendingTime(41, 1 * S, 6 * S)
    assert together([first.moved(3 * S), second]) == SendingTime(41, 2 * S, 9 * S)
    assert together([]) == SendingTime()
    workers = [
        WorkerRate("worker 0 on a", "", first),
        WorkerRate("worker 1 on b", "it was \x1b silent", SendingTime()),
    ]
    assert list(worker_rates_text(workers)) == [
        "11 requests sent to memory, 2 a second",
        "  worker 0 on a: 11 requests sent to memory, 2 a second",
        "  worker 1 on b: lost: it was \\x1b silent",
    ]
