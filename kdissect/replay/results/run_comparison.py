"""The comparison of a run with its capture, from the run's files alone: numbers first, verdict last.

Only what survives another cluster is compared: errors, counts, progress, times; never ids or offsets as they stand. A captured
latency was seen where the capture was taken, a replayed one in the replayer, so small differences mean nothing.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from kdissect.protocol.error_codes import CLUSTER_STATE_ERRORS, error_name, is_retriable
from kdissect.replay.disposition import (
    SENT,
    Disposition,
    check,
    sums,
)
from kdissect.replay.results.glossary import TOO_BUSY
from kdissect.replay.results.run_checks import RunChecks
from kdissect.replay.results.run_timeline import RunTimeline
from kdissect.report.aggregate.quantiles import quantile

SATURATED_NS = 5_000_000  # lag of its own making that the replayer may have at the 99th percentile
SATURATED_SHARE = 0.05
WANTING = {
    each.value
    for each in (
        Disposition.VERSION,
        Disposition.LOSSY,
        Disposition.DEPENDENCY,
        Disposition.HEADLESS,
        Disposition.UNDECODABLE,
    )
}
MOST_WANTING = 0.1  # of the requests that should be sent and could not be
FEW = 100  # below that many, percentiles say little
IDLE_SHARE = 0.9  # of max_wait: an empty fetch that took so long waited for data
QUANTILES_PER_MILLE = (500, 900, 990, 999)


@dataclass(slots=True)
class _Times:
    captured: list[int] = field(default_factory=list)
    service: list[int] = field(default_factory=list)
    response: list[int] = field(default_factory=list)
    idle: int = 0
    throttle_ms: int = 0


def compare(run: dict[str, Any], pairs: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Compare one run with its capture."""
    buckets: Counter[Disposition] = Counter()
    by_api: dict[str, Counter[str]] = defaultdict(Counter)
    reasons: Counter[tuple[str, str]] = Counter()
    errors: dict[tuple[str, str, str], dict[str, Any]] = {}
    times: dict[str, _Times] = defaultdict(_Times)
    lags: dict[str, list[int]] = defaultdict(list)
    checks, course = RunChecks(), RunTimeline()
    rewrites: Counter[str] = Counter()
    for pair in pairs:
        bucket = Disposition(pair["bucket"])
        buckets[bucket] += 1
        by_api[pair["api"]][bucket.value] += 1
        if bucket not in SENT:
            reasons[bucket.value, pair["reason"]] += 1
        rewrites.update(_kind(note) for note in pair["rewrites"])
        checks.take(pair)
        if pair["sent"] is None:
            continue
        sent, idle = pair["sent"], is_idle_poll(pair)
        _take_times(times[f"{pair['api']} v{sent['version']}"], pair, idle)
        course.take(pair, idle=idle)
        if sent["due_ns"] is not None:
            lags[sent["cause"] or "on time"].append(max(sent["sent_ns"] - sent["due_ns"], 0))
        _take_error(errors, pair)
    check(run["plan"]["accounting"]["captured"], buckets)
    found = checks.found(run)
    report = {
        "format": 1,
        "accounting": sums(buckets),
        "apis": {name: dict(counts) for name, counts in sorted(by_api.items())},
        "skipped": [
            {"bucket": bucket, "reason": reason, "requests": count}
            for (bucket, reason), count in reasons.most_common()
        ],
        "errors": sorted(
            errors.values(), key=lambda each: (each["kind"] == "same", each["expected"], -each["requests"])
        ),
        "checks": found,
        "records": checks.records(run["plan"]["names"]["topics"]),
        "latency": {name: _latency(each) for name, each in sorted(times.items())},
        "lag": _lag(lags),
        "course": course.found(),
        "rewrites": dict(rewrites.most_common()),
        "run": {name: value for name, value in run.items() if name != "plan"},
        "capture": run["plan"]["capture"],
        "target": run["plan"]["target"],
        "settings": run["plan"]["settings"],
        "wanting": _wanting(reasons, sum(buckets[bucket] for bucket in SENT)),
    }
    report["verdict"], report["because"] = verdict(report)
    return report


def _wanting(reasons: Counter[tuple[str, str]], sent: int) -> dict[str, Any]:
    """Say what could not be sent, though nobody had chosen to leave it out."""
    lacking: Counter[str] = Counter()
    for (bucket, reason), count in reasons.items():
        lacking[reason] += count if bucket in WANTING else 0
    why = lacking.most_common(1)[0][0] if lacking.total() else ""
    return {"requests": lacking.total(), "of": lacking.total() + sent, "why": why}


def _kind(note: str) -> str:
    """Name a rewrite without what it was about, for counting."""
    return note.split(":", maxsplit=1)[0] if note.startswith("without") else note


def first_error(pair: dict[str, Any]) -> int | None:
    """Give the first error of the replayed answers; None where nothing was answered."""
    if not pair["answers"]:
        return None
    return next((entry["error"] for entry in settled(pair) if entry["error"]), 0)


def settled(pair: dict[str, Any]) -> list[dict[str, Any]]:
    """Give what the answers say in the end: what was sent again supersedes its refusal."""
    counted = len(pair["answers"]) - pair.get("again", 0)
    entries = [entry for answer in pair["answers"][:counted] for entry in answer["digest"]]
    for answer in pair["answers"][counted:]:
        for entry in answer["digest"]:
            at = next(
                (
                    number
                    for number, each in enumerate(entries)
                    if each["error"] and each["where"] == entry["where"]
                ),
                len(entries),
            )
            entries[at : at + 1] = [entry]
    return entries


def _take_error(errors: dict[tuple[str, str, str], dict[str, Any]], pair: dict[str, Any]) -> None:
    captured, replayed = pair["captured"]["error"], first_error(pair)
    if captured is None and replayed is None:
        return
    before = "no answer" if captured is None else error_name(captured)
    after = pair["bucket"] if replayed is None else error_name(replayed)
    if pair["bucket"] == Disposition.NO_ANSWER_DUE.value and captured is None:
        return
    if before == after == "NONE":
        return
    key = (pair["api"], before, after)
    if key not in errors:
        codes = {code for code in (captured, replayed) if code}
        errors[key] = {
            "api": pair["api"],
            "captured": before,
            "replayed": after,
            "kind": _divergence(captured, replayed),
            "expected": bool(codes) and codes <= CLUSTER_STATE_ERRORS,
            "retriable": all(is_retriable(code) for code in codes),
            "requests": 0,
            "sample": {
                "connection": pair["connection"],
                "ordinal": pair["ordinal"],
                "client_id": pair["client_id"],
                "captured_time_ns": pair["captured"]["time_ns"],
                "sent_ns": pair["sent"]["sent_ns"],
                "where": next(
                    (entry["where"] for entry in settled(pair) if entry["error"]),
                    "",
                ),
            },
        }
    errors[key]["requests"] += 1


def _divergence(captured: int | None, replayed: int | None) -> str:
    if captured == replayed:
        return "same"
    if replayed == 0:
        return "vanished"
    return "mutated" if captured else "new"


def _take_times(times: _Times, pair: dict[str, Any], idle: bool) -> None:
    sent = pair["sent"]
    times.throttle_ms += sent["throttle_ms"]
    times.idle += idle
    if sent["received_ns"] is None or idle:
        return
    times.service.append(sent["received_ns"] - sent["sent_ns"])
    if sent["due_ns"] is not None:
        times.response.append(sent["received_ns"] - sent["due_ns"])
    if pair["captured"]["service_ns"] is not None:
        times.captured.append(pair["captured"]["service_ns"])


def is_idle_poll(pair: dict[str, Any]) -> bool:
    """Tell whether an answered request waited for something to come: for data, or for the other members of a group."""
    if pair["sent"]["received_ns"] is None:
        return False
    if pair["api"] in ("JoinGroup", "SyncGroup"):
        return True
    if pair["api"] != "Fetch":
        return False
    wait_ms = ((pair["captured"].get("request") or {}).get("max_wait_ms") or 0) / max(
        pair.get("speed", 1), 1e-9
    )
    empty = not any(entry.get("records") for answer in pair["answers"] for entry in answer["digest"])
    waited_ns = pair["sent"]["received_ns"] - pair["sent"]["sent_ns"]
    return bool(empty and waited_ns >= IDLE_SHARE * wait_ms * 1e6)


def quantiles(values: list[int]) -> dict[str, float] | None:
    """Return p50, p90, p99, p99.9 and max in ms of values in ns, by nearest rank; None for no values."""
    if not values:
        return None
    ordered = sorted(values)
    found = {f"p{each / 10:g}": quantile(ordered, each) / 1e6 for each in QUANTILES_PER_MILLE}
    return found | {"max": ordered[-1] / 1e6}


def _latency(times: _Times) -> dict[str, Any]:
    captured, service = quantiles(times.captured), quantiles(times.service)
    ratio = None
    if captured and service and captured["p99"]:
        ratio = service["p99"] / captured["p99"]
    return {
        "requests": len(times.service),
        "few": len(times.service) < FEW,
        "captured_ms": captured,
        "service_ms": service,
        "response_ms": quantiles(times.response),
        "p99_ratio": ratio,
        "idle_polls": times.idle,
        "throttle_ms": times.throttle_ms,
    }


def _lag(lags: dict[str, list[int]]) -> dict[str, Any]:
    everything = [lag for each in lags.values() for lag in each]
    own = lags.get("self", []) + lags.get("on time", [])
    late = sum(1 for lag in lags.get("self", ()) if lag > SATURATED_NS)
    return {
        "all_ms": quantiles(everything),
        "own_ms": quantiles(own),
        "own_late_share": late / len(everything) if everything else 0.0,
        "causes": {
            cause: {"requests": len(each), "ms": quantiles(each)} for cause, each in sorted(lags.items())
        },
    }


def verdict(report: dict[str, Any]) -> tuple[str, list[str]]:
    """Say pass, diverged or invalid, and why."""
    invalid = []
    lag = report["lag"]
    if (
        report["settings"]["pace"] == "schedule"
        and lag["own_ms"]
        and lag["own_ms"]["p99"] * 1e6 > SATURATED_NS
    ):
        invalid.append(f"the replayer itself was late: p99 {lag['own_ms']['p99']:.1f} ms{TOO_BUSY}")
    elif report["settings"]["pace"] == "schedule" and lag["own_late_share"] > SATURATED_SHARE:
        share = f"{lag['own_late_share']:.0%} of the requests"
        invalid.append(f"the replayer itself was late for {share}{TOO_BUSY}")
    if report["run"].get("stopped"):
        invalid.append(f"incomplete: {report['run']['stopped']}")
    wanting = report["wanting"]
    if wanting["requests"] > MOST_WANTING * wanting["of"]:
        invalid.append(
            f"{wanting['requests']:,} of {wanting['of']:,} requests to be sent could not be: {wanting['why']}"
        )
    if not report["accounting"]["sent"]:
        invalid.append("nothing was sent")
    diverged = [
        f"{each['requests']} {each['api']}: {each['captured']} became {each['replayed']}"
        for each in report["errors"]
        if each["kind"] in ("new", "mutated") and not each["expected"]
    ]
    diverged += [check["found"] for check in report["checks"] if not check["holds"]]
    if invalid:
        return "invalid", invalid + diverged
    return ("diverged", diverged) if diverged else ("pass", [])


def without_noise(report: dict[str, Any], other: dict[str, Any]) -> None:
    """Mark what a second, identical run shows as well or otherwise: divergence that the target has by itself."""
    noise = {(each["api"], each["captured"], each["replayed"]): each["requests"] for each in other["errors"]}
    for each in report["errors"]:
        each["noise"] = noise.get((each["api"], each["captured"], each["replayed"]), 0)
        if each["kind"] != "same" and not each["expected"] and each["requests"] <= each["noise"]:
            each["expected"] = each["is_noise"] = True
    lacking = {each["check"]: each.get("lacking", 0) for each in other["checks"]}
    for each in report["checks"]:
        if 0 < each.get("lacking", 0) <= lacking.get(each["check"], 0):
            each["holds"], each["found"] = True, f"{each['found']}; as in the noise run"
    for name, each in report["latency"].items():
        second = other["latency"].get(name)
        each["noise_service_ms"] = second["service_ms"] if second else None
    report["noise"] = {"run": other["run"].get("id"), "verdict": other["verdict"]}
    report["verdict"], report["because"] = verdict(report)
