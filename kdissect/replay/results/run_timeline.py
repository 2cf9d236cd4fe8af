"""The course of a run over its time: requests due and sent, latencies and lags, in steps of equal length."""

from array import array
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kdissect.report.aggregate.quantiles import nearest_rank

MOST_STEPS = 120
STEP_LENGTHS_MS = [mantissa * 10**power for power in range(8) for mantissa in (1, 2, 5)]
"""How long a step may be; the last makes two weeks and more of a timeline."""
UNKNOWN = -1
DUE, SENT, CAPTURED, RESPONSE, COLUMNS = range(5)
P99, MAXIMUM = 990, 1000  # per mille


class RunTimeline:
    """Four numbers in ns for each sent request: due time, sending time, captured latency, response time."""

    def __init__(self) -> None:
        self._facts = array("q")

    def add(self, pair: Mapping[str, Any], *, idle: bool) -> None:
        """Add a pair that was sent, without its latency if it waited for something to come (`idle`)."""
        sent, service_ns = pair["sent"], pair["captured"]["service_ns"]
        due_ns = sent["sent_ns"] if sent["due_ns"] is None else sent["due_ns"]
        timed = not idle and sent["received_ns"] is not None
        self._facts.extend(
            (
                due_ns,
                sent["sent_ns"],
                service_ns if timed and service_ns is not None else UNKNOWN,
                max(sent["received_ns"] - due_ns, 0) if timed else UNKNOWN,
            )
        )

    def steps(self) -> dict[str, Any]:
        """Return by step: requests due and sent, p99 of captured and of replayed latency, longest lag; in ms.

        Steps are of the run's time, so a captured latency stands where its request was due. None stands where
        a step has no value.
        """
        facts = np.frombuffer(self._facts, np.int64).reshape(-1, COLUMNS)
        length_ns = int(facts[:, (DUE, SENT)].max(initial=0)) + 1
        step_ms = next(
            (each for each in STEP_LENGTHS_MS if MOST_STEPS * each * 1e6 >= length_ns), STEP_LENGTHS_MS[-1]
        )
        count = min(-(-length_ns // (step_ms * 1_000_000)), MOST_STEPS)
        due, sent = (
            np.minimum(facts[:, column] // (step_ms * 1_000_000), count - 1).clip(0) for column in (DUE, SENT)
        )
        lags_ns = (facts[:, SENT] - facts[:, DUE]).clip(0)
        return {
            "step_ms": step_ms,
            "due": np.bincount(due, minlength=count).tolist(),
            "sent": np.bincount(sent, minlength=count).tolist(),
            "captured_p99_ms": _quantiles(due, facts[:, CAPTURED], count, P99),
            "response_p99_ms": _quantiles(due, facts[:, RESPONSE], count, P99),
            "lag_max_ms": _quantiles(due, lags_ns, count, MAXIMUM),
        }


def _quantiles(
    steps: NDArray[np.int64], values_ns: NDArray[np.int64], count: int, per_mille: int
) -> list[float | None]:
    """Return the nearest-rank quantile of each of `count` steps in ms; None for a step without values."""
    known = values_ns != UNKNOWN
    order = np.lexsort((values_ns[known], steps[known]))
    steps, values_ns = steps[known][order], values_ns[known][order]
    begins = np.searchsorted(steps, np.arange(count + 1))
    sizes = np.diff(begins)
    places = begins[:-1] + np.maximum(nearest_rank(sizes, per_mille), 1) - 1
    return [
        float(values_ns[place]) / 1e6 if size else None
        for place, size in zip(places.tolist(), sizes.tolist(), strict=True)
    ]
