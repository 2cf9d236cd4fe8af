"""`replay.results.pass_rate`: requests a second of sending, however late the last answer is."""

from kdissect.replay.disposition import Disposition
from kdissect.replay.engine.pass_results import RequestResult, ResultTable
from kdissect.replay.results.pass_rate import requests_per_second

S = 10**9


def test_the_rate_counts_what_was_sent() -> None:
    table = ResultTable()
    for index in range(4):
        table.append(
            RequestResult(index, Disposition.ANSWERED, sent_ns=(1 + index) * S, received_ns=(2 + index) * S)
        )
    table.append_skipped(4, Disposition.POLICY, "off")
    table.append(RequestResult(5, Disposition.ANSWERED, sent_ns=5 * S, received_ns=60 * S))
    assert requests_per_second(table) == (5, 1.0)
    assert requests_per_second(ResultTable()) == (0, 0.0)
