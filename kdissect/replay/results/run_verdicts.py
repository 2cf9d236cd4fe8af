"""The verdict on correctness, and the figures of a comparison that `--fail-on` may name.

In: the report on a run, as `run_comparison` makes it. Out: pass, diverged or invalid, with one sentence for
each reason: does the run say anything about the target, and did the target answer alike? Performance has a
verdict of its own (see `performance`): a slow target may answer correctly.

Only the replayer's own delays make a run invalid. A request that waited for the target, for another request
or for a limit was late too, but the run still says what the target did.

`report.thresholds` has the grammar of `--fail-on`. Shares count requests: `new_error` and `mutated_error`
are parts of the requests that were sent, `skipped` is a part of the captured ones. Errors that every
cluster has at times of its own do not count.
"""

from collections.abc import Callable, Mapping
from typing import Any

from kdissect.errors import ExitCode
from kdissect.replay.results.glossary import TOO_BUSY
from kdissect.replay.results.refusal_reasons import kept_out, reasons_of
from kdissect.report.thresholds import Statement, TableVocabulary

SATURATED_NS = 5_000_000
"""A delay of its own making from which on the replayer counts as late."""

SATURATED_SHARE = 0.05
"""The share of all requests that the replayer itself may send late, whatever else delays them."""

LEAST_REQUESTS = 100
"""How many requests a 99th percentile needs: that of fewer is the latest request alone."""

MOST_WANTING = 0.1
"""The share of the requests that should be sent and could not be."""

EXIT_CODES = {
    "pass": ExitCode.DONE,
    "diverged": ExitCode.CONDITION_MET,
    "invalid": ExitCode.INVALID,
}

Report = Mapping[str, Any]


def verdict(report: Report) -> tuple[str, list[str]]:
    """Return pass, diverged or invalid, and one sentence for each reason."""
    invalid, diverged = _why_invalid(report), _why_diverged(report)
    if invalid:
        return "invalid", invalid + diverged
    return ("diverged", diverged) if diverged else ("pass", [])


def _why_invalid(report: Report) -> list[str]:
    """Return why a run says nothing about the target."""
    reasons, wanting = [], report["wanting"]
    if report["settings"]["pace"] == "schedule":
        reasons += _own_delays(report["lag"])
    if report["run"].get("stopped"):
        reasons.append(f"incomplete: {report['run']['stopped']}")
        if report["left_out"]:
            lost = any(worker["lost"] for worker in report["run"].get("workers") or ())
            why = "are missing" if lost else "were left out, to report at once"
            reasons.append(f"details of {report['left_out']:,} requests {why}")
    unsent = wanting["requests"] - kept_out(report)  # it is the target that wants no such members
    if unsent > MOST_WANTING * wanting["of"]:
        reasons.append(f"{unsent:,} of {wanting['of']:,} requests to be sent could not be: {wanting['why']}")
    if not report["accounting"]["sent"]:
        reasons.append("nothing was sent")
    return reasons


def _own_delays(lag: Mapping[str, Any]) -> list[str]:
    """Return that the replayer was late, if it was so for many requests.

    Its 99th percentile counts only if it is the main cause: behind a slow target every request is late, and
    a few of them wait for the processor too.
    """
    own, late = lag["own_late"], lag["late"]
    requests = sum(each["requests"] for each in lag["causes"].values())
    if lag["own_late_share"] > SATURATED_SHARE:
        return [f"the replayer itself was late for {lag['own_late_share']:.0%} of the requests{TOO_BUSY}"]
    if requests >= LEAST_REQUESTS and lag["own_ms"]["p99"] * 1e6 > SATURATED_NS and 2 * own >= late:
        return [f"the replayer itself was late: p99 {lag['own_ms']['p99']:.1f} ms{TOO_BUSY}"]
    return []


def _why_diverged(report: Report) -> list[str]:
    reasons = [
        f"{error['requests']} {error['api']}: {error['captured']} became {error['replayed']}"
        for error in report["errors"]
        if error["kind"] in ("new", "mutated") and not error["expected"]
    ]
    reasons += [failed["found"] for failed in report["checks"] if not failed["holds"]]
    return reasons_of(report) + reasons if reasons else []


Comparison = Mapping[str, Any]


def _share(kinds: tuple[str, ...]) -> Callable[[Comparison], float]:
    def measure(report: Comparison) -> float:
        wrong = sum(
            each["requests"] for each in report["errors"] if each["kind"] in kinds and not each["expected"]
        )
        return float(wrong / max(report["accounting"]["sent"], 1))

    return measure


def _failed_checks(report: Comparison) -> float:
    return sum(not each["holds"] for each in report["checks"])


def _ratio(report: Comparison) -> float:
    ratios = [
        each["p99_ratio"] for each in report["latency"].values() if each["p99_ratio"] and not each["few"]
    ]
    return max(ratios, default=0.0)


def _skipped(report: Comparison) -> float:
    accounting = report["accounting"]
    return float(accounting["skipped"] / max(accounting["captured"], 1))


FIGURES: Mapping[str, Callable[[Comparison], float]] = {
    "new_error": _share(("new",)),
    "mutated_error": _share(("mutated",)),
    "error": _share(("new", "mutated")),
    "failed_checks": _failed_checks,
    "p99_ratio": _ratio,
    "skipped": _skipped,
}


def _verdict(*verdicts: str) -> Statement[Comparison]:
    """Return the statement that the verdict is one of these."""

    def met(report: Comparison) -> list[str]:
        return [f"the verdict is {report['verdict']}"] if report["verdict"] in verdicts else []

    return met


def _slower(report: Comparison) -> list[str]:
    """Return that the target was slower than the reference, with what decided it."""
    performance = report["performance"]
    return [f"slower: {'; '.join(performance['because'])}"] if performance["verdict"] == "slower" else []


STATEMENTS = {
    "diverged": _verdict("diverged", "invalid"),
    "invalid": _verdict("invalid"),
    "slower": _slower,
}
COMPARISON_VOCABULARY: TableVocabulary[Comparison] = TableVocabulary(FIGURES, STATEMENTS)
