"""Account of requests that have ended: a result for each one, its answers in the spool, and the limits told.

In: the answers of a request, or why it failed. Out: a row of the `ResultTable`, and the moment of the answer.
Nearly all requests end well and in one part, and have a way of their own (`good`). Times are ns on the clock
of the run.
"""

from collections.abc import Sequence

from kdissect.replay.disposition import Disposition, SkipRequest
from kdissect.replay.effects import Answer
from kdissect.replay.engine.fast_path.in_flight import InFlightRequest
from kdissect.replay.engine.pass_results import RequestResult, ResultTable, is_new_error, result_of
from kdissect.replay.engine.run_limits import RunLimits
from kdissect.replay.load.replay_items import ReplayItem
from kdissect.replay.load.spool import Spool
from kdissect.replay.net.pool import ConnectionPool

LATE_NS = 2_000_000  # a request is late beyond this: timers of event loops count in ms
SELF = "self"  # the cause of delay that is the replayer itself


class RequestAccounts:
    """The results of one process, as they come in."""

    def __init__(self, results: ResultTable, spool: Spool, limits: RunLimits, pool: ConnectionPool) -> None:
        self._results, self._spool, self._limits, self._pool = results, spool, limits, pool

    def good(self, index: int, due_ns: int, cause: str, answer: Answer) -> None:
        """Account for a request in one part whose answer stands for no error.

        `cause` is why it may have been sent late.
        """
        sent_ns, frame = answer.sent_ns, answer.frame
        assert sent_ns is not None
        assert frame is not None
        late = sent_ns - due_ns > LATE_NS
        cause = (cause or answer.held or SELF) if late else ""
        self._results.append_answered(index, due_ns, cause, answer, self._spool.add(frame))
        self._limits.note(self._pool.now_ns, False, False)

    def sent(
        self,
        item: ReplayItem,
        due_ns: int,
        cause: str,
        answers: Sequence[Answer],
        request: InFlightRequest | None = None,
    ) -> int | None:
        """Account for a request that was sent, and return when it was answered.

        `cause` is why it may have been sent late. The fast path has looked at the answers of its `request`:
        if they are good, or stand for none that is looked at, no error is searched for.
        """
        index = item.request.index
        if request is not None and request.good and len(answers) == 1:  # nearly always
            self.good(index, due_ns, cause, answers[0])
            return answers[0].received_ns
        result = result_of(index, answers, self._spool.put)
        result.due_ns = due_ns
        if (result.lag_ns or 0) > LATE_NS:
            result.cause = cause or next((answer.held for answer in answers if answer.held), "") or SELF
        stands_for = 1 if request is None else request.stands_for
        error = request is None or not request.good
        if stands_for:
            failed = error and is_new_error(answers, result, bool(item.error))
            self._limits.note(self._pool.now_ns, failed, error and result.throttle_ms > 0, stands_for)
        self._results.append(result)
        return result.received_ns

    def failed(self, index: int, due_ns: int, failure: Exception) -> None:
        """Account for a request that could not be sent."""
        disposition = failure.bucket if isinstance(failure, SkipRequest) else Disposition.POLICY
        self._results.append(RequestResult(index, disposition, str(failure), due_ns))


def is_sent_again(answers: Sequence[Answer] | None, first_ns: int) -> bool:
    """Return whether what counts was sent again after a first sending whose answer does not count."""
    times_ns = [each.sent_ns for each in answers or () if each.sent_ns is not None and not each.held]
    return bool(times_ns) and min(times_ns) - first_ns > LATE_NS
