"""`replay.engine.request_accounts`: a result for each request, whichever way it ended."""

from __future__ import annotations

from typing import cast

import pytest

from kdissect.replay.disposition import Disposition, SkipRequest
from kdissect.replay.effects import Answer, Part
from kdissect.replay.engine.fast_path.in_flight import InFlightRequest
from kdissect.replay.engine.pass_results import RequestResult, ResultTable
from kdissect.replay.engine.request_accounts import LATE_NS, SELF, RequestAccounts, is_sent_again
from kdissect.replay.engine.run_limits import RunLimits
from kdissect.replay.load.replay_items import ReplayItem
from kdissect.replay.load.spool import Spool
from kdissect.replay.net.pool import ConnectionPool
from kdissect.replay.safety import AbortRun
from kdissect.replay.settings import Breaker, Caps
from tests.helpers.paper_target import PaperTarget, Script, settings, topology

FRAME = bytes(4) + b"response"


class Told:
    """A request of the fast path, as far as accounts look at it."""

    good, stands_for = True, 1


def item() -> ReplayItem:
    script = Script()
    script.add(0, 3, 9, {"topics": None})
    return ReplayItem(script.requests[0], "client")


def answer(sent_ns: int, held: str = "") -> Answer:
    part = Part(3, 9, {})
    return Answer(part, Disposition.ANSWERED, FRAME, sent_ns, sent_ns + 5, 1, 40, held)


def accounts() -> tuple[RequestAccounts, ResultTable, RunLimits]:
    results, limits = ResultTable(), RunLimits(Caps(), Breaker())
    pool = ConnectionPool(settings(), topology(), PaperTarget(lambda *_: None), lambda: "")
    return RequestAccounts(results, Spool(), limits, pool), results, limits


@pytest.mark.parametrize(
    ("sent_ns", "cause", "held", "expected"),
    [
        (LATE_NS, "rate cap", "connecting", ""),
        (LATE_NS + 1, "rate cap", "connecting", "rate cap"),
        (LATE_NS + 1, "", "connecting", "connecting"),
        (LATE_NS + 1, "", "", SELF),
    ],
)
def test_a_good_answer_has_the_same_result_in_both_ways(
    sent_ns: int, cause: str, held: str, expected: str
) -> None:
    made, results, limits = accounts()
    request = cast("InFlightRequest", Told())
    assert made.sent(item(), 0, cause, [answer(sent_ns, held)], request) == sent_ns + 5
    request.good = False
    request.stands_for = 0  # no error is searched for
    assert made.sent(item(), 0, cause, [answer(sent_ns, held)], request) == sent_ns + 5
    first, second = results[0], results[1]
    assert first.cause == expected
    second.answers, first.answers = (), ()  # which lie at two places of the spool
    assert first == second
    assert limits.recent(0).requests == 1


def test_a_failure_is_a_result_with_its_reason() -> None:
    made, results, _ = accounts()
    made.failed(3, 7, SkipRequest(Disposition.LOSSY, "it loses a field"))
    made.failed(4, 8, AbortRun("it must not"))
    assert results[0] == RequestResult(3, Disposition.LOSSY, "it loses a field", 7)
    assert results[1] == RequestResult(4, Disposition.POLICY, "it must not", 8)


def test_what_is_sent_again_after_a_while_was_late_for_another_reason() -> None:
    assert is_sent_again([answer(LATE_NS + 4)], 3)
    assert not is_sent_again([answer(LATE_NS + 3)], 3)
    assert not is_sent_again([answer(LATE_NS + 4, "connecting")], 3)
    assert not is_sent_again(None, 3)
