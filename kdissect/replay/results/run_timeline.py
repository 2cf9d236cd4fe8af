"""The course of a run: how many requests were due and sent in each step of it, how long answers took, how late sending was."""

from array import array
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kdissect.report.aggregate.quantiles import nearest_rank

MOST_STEPS = 120
STEPS_MS = [mantissa * 10**power for power in range(8) for mantissa in (1, 2, 5)]
"""How long a step may be; the last is two weeks and more, for a drawing."""
UNKNOWN = -1
DUE, SENT, CAPTURED, RESPONSE, FIELDS = range(5)
P99, MAXIMUM = 990, 1000  # per mille


class RunTimeline:
    """What is remembered of each request that was sent: four numbers, in ns."""

    def __init__(self) -> None:
        self._facts = array("q")

    def take(self, pair: Mapping[str, Any], *, idle: bool) -> None:
        """Remember a pair; the latency of one that waited for something to come counts for nothing."""
        sent, service = pair["sent"], pair["captured"]["service_ns"]
        due = sent["sent_ns"] if sent["due_ns"] is None else sent["due_ns"]
        told = not idle and sent["received_ns"] is not None
        self._facts.extend(
            (
                due,
                sent["sent_ns"],
                service if told and service is not None else UNKNOWN,
                max(sent["received_ns"] - due, 0) if told else UNKNOWN,
            )
        )

    def found(self) -> dict[str, Any]:
        """Give by step: requests due and sent, captured and response latency (p99), the longest lag; times in ms.

        Steps are of the run's time, so captured latencies stand where their requests were due. Where there is nothing to tell
        of a step stands null.
        """
        facts = np.frombuffer(self._facts, np.int64).reshape(-1, FIELDS)
        length_ns = int(facts[:, (DUE, SENT)].max(initial=0)) + 1
        step_ms = next((each for each in STEPS_MS if MOST_STEPS * each * 1e6 >= length_ns), STEPS_MS[-1])
        steps = min(-(-length_ns // (step_ms * 1_000_000)), MOST_STEPS)
        due, sent = (
            np.minimum(facts[:, name] // (step_ms * 1_000_000), steps - 1).clip(0) for name in (DUE, SENT)
        )
        lag = (facts[:, SENT] - facts[:, DUE]).clip(0)
        return {
            "step_ms": step_ms,
            "due": np.bincount(due, minlength=steps).tolist(),
            "sent": np.bincount(sent, minlength=steps).tolist(),
            "captured_p99_ms": _worst(due, facts[:, CAPTURED], steps, P99),
            "response_p99_ms": _worst(due, facts[:, RESPONSE], steps, P99),
            "lag_max_ms": _worst(due, lag, steps, MAXIMUM),
        }


def _worst(
    step: NDArray[np.int64], values: NDArray[np.int64], steps: int, per_mille: int
) -> list[float | None]:
    """Return the nearest-rank quantile of each step in ms; None for a step without values."""
    known = values != UNKNOWN
    order = np.lexsort((values[known], step[known]))
    step, values = step[known][order], values[known][order]
    begins = np.searchsorted(step, np.arange(steps + 1))
    counts = np.diff(begins)
    ranks = begins[:-1] + np.maximum(nearest_rank(counts, per_mille), 1) - 1
    return [
        float(values[rank]) / 1e6 if count else None
        for rank, count in zip(ranks.tolist(), counts.tolist(), strict=True)
    ]
