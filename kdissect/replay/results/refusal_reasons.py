"""Reasons for errors: brokers of the target were out of reach, or a cluster refuses by its settings.

In: the report on a run. Out: one sentence for each reason, and how many requests could not be sent since the
target kept their members out. A reason explains errors and takes none away: the verdict stays diverged.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kdissect.protocol.error_codes import AUTHORIZATION_ERRORS, ErrorCode, error_name
from kdissect.replay.disposition import NOT_IN, Disposition

Report = Mapping[str, Any]

REFUSED_SESSION = error_name(ErrorCode.INVALID_SESSION_TIMEOUT)
DISABLED = error_name(ErrorCode.SECURITY_DISABLED)
NO_RIGHTS = frozenset(map(error_name, AUTHORIZATION_ERRORS))
KEEPS_OUT = NO_RIGHTS | {REFUSED_SESSION, error_name(ErrorCode.GROUP_MAX_SIZE_REACHED)}
"""Errors by which a target keeps members out for its settings."""

JOINS = frozenset({"JoinGroup", "ConsumerGroupHeartbeat", "ShareGroupHeartbeat"})


def reasons_of(report: Report) -> list[str]:
    """Return why requests failed, as far as connections and the settings of both clusters tell it."""
    reasons = [*_out_of_reach(report), *_sessions(report), *_authorizer(report)]
    refused = _counts(report, "captured", lambda error: error["replayed"] not in NO_RIGHTS)
    if refused:
        reasons.append(
            f"the capture was refused by access rights that the target does not have: {_listed(refused)}"
        )
    refused = _counts(report, "replayed", lambda error: error["captured"] not in NO_RIGHTS)
    if refused:
        reasons.append(
            f"the target refuses by access rights that the captured cluster did not have: {_listed(refused)}"
        )
    return reasons


def kept_out(report: Report) -> int:
    """Return how many requests were skipped since the target refused their members for its settings."""
    refuses = any(
        error["api"] in JOINS and error["replayed"] in KEEPS_OUT and error["kind"] in ("new", "mutated")
        for error in report["errors"]
    )
    return sum(each["requests"] for each in report["skipped"] if refuses and each["reason"] == NOT_IN)


def _out_of_reach(report: Report) -> Iterator[str]:
    """Yield that brokers were down: they accept no connections, or end those that they have."""
    connections = report["run"]["connections"]
    refused, closed = connections["refused"], connections["closed_by_peer"]
    if refused:
        yield (
            f"a broker of the target was out of reach for a while: {refused:,} connections were refused, "
            f"and {closed:,} closed"
        )
    elif closed and any(error["replayed"] == Disposition.CLOSED.value for error in report["errors"]):
        yield f"the target closed {closed:,} connections"


def _sessions(report: Report) -> Iterator[str]:
    refused = [
        error
        for error in report["errors"]
        if error["replayed"] == REFUSED_SESSION and error["kind"] in ("new", "mutated")
    ]
    if refused:
        told: list[str] = report["target"].get("refused_sessions") or []
        yield from told or ["the target refuses the session timeouts of members"]


def _authorizer(report: Report) -> Iterator[str]:
    apis = sorted(
        {
            error["api"]
            for error in report["errors"]
            if error["replayed"] == DISABLED and error["captured"] != DISABLED
        }
    )
    if apis:
        yield f"the target has no authorizer ({', '.join(apis)}: {DISABLED})"


def _counts(report: Report, side: str, differs: Callable[[Mapping[str, Any]], bool]) -> Counter[str]:
    """Return how often each error of access rights was on one side only, by error and API."""
    counts: Counter[str] = Counter()
    for error in report["errors"]:
        if error[side] in NO_RIGHTS and differs(error):
            counts[f"{error['api']} {error[side]}"] += error["requests"]
    return counts


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.most_common())
