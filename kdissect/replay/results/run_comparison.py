"""The comparison of a run with its capture, from the run's files alone: numbers first, verdict last.

In: `run.json` as a dictionary, and the pairs of `pairs.jsonl`, one for each captured request with what became
of it. Out: a report of plain values, which is written as JSON and rendered by `run_text` and `run_page`.

Only what survives another cluster is compared: errors, counts, progress and times, never ids or offsets as
they are. A captured latency was measured where the capture was taken, a replayed one in the replayer, so
small differences mean nothing. Responses that waited for data or for the other members of a group have no
latency.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kdissect.protocol.error_codes import CLUSTER_STATE_ERRORS, error_name, is_retriable
from kdissect.replay.disposition import (
    SENT,
    Disposition,
    check,
    sums,
)
from kdissect.replay.results.performance import (
    LEAST_SHARE,
    Latencies,
    LatencySubject,
    RunLatencies,
    compare_latencies,
    performance_verdict,
)
from kdissect.replay.results.run_checks import RunChecks
from kdissect.replay.results.run_timeline import RunTimeline
from kdissect.replay.results.run_verdicts import SATURATED_NS, verdict
from kdissect.report.aggregate.quantiles import quantile

FORMAT = 1  # of the report; its keys and units
WANTING = {
    disposition.value
    for disposition in (
        Disposition.VERSION,
        Disposition.LOSSY,
        Disposition.DEPENDENCY,
        Disposition.HEADLESS,
        Disposition.UNDECODABLE,
    )
}
"""Why a request is not sent although nobody chose to leave it out."""
FEW = 100  # requests; below that percentiles say little
IDLE_SHARE = 0.9  # of max_wait_ms: an empty fetch that took so long waited for data
QUANTILES_PER_MILLE = (500, 900, 990, 999)

Pair = Mapping[str, Any]


@dataclass(slots=True)
class _ApiWaits:
    """Waits of one API at one version, beside its service times, which `RunLatencies` has."""

    response: list[int] = field(default_factory=list)  # ns from the due time to the response
    idle: int = 0  # requests that waited for something to come
    throttle_ms: int = 0


@dataclass(slots=True)
class _Totals:
    """Sums over all pairs of a run."""

    dispositions: Counter[Disposition] = field(default_factory=Counter)
    apis: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    skip_reasons: Counter[tuple[str, str]] = field(default_factory=Counter)  # by disposition and reason
    errors: dict[tuple[str, str, str], dict[str, Any]] = field(default_factory=dict)
    waits: dict[str, _ApiWaits] = field(default_factory=lambda: defaultdict(_ApiWaits))  # by API and version
    lags_ns: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))  # by cause
    rewrites: Counter[str] = field(default_factory=Counter)
    checks: RunChecks = field(default_factory=RunChecks)
    timeline: RunTimeline = field(default_factory=RunTimeline)
    latencies: RunLatencies = field(default_factory=RunLatencies)

    left_out: int = 0  # requests that were sent, and of which nothing else is known

    def add(self, pair: Pair) -> None:
        """Add one pair, or requests that were counted together."""
        disposition, count = Disposition(pair["bucket"]), pair.get("requests", 1)
        self.dispositions[disposition] += count
        self.apis[pair["api"]][disposition.value] += count
        if disposition not in SENT:
            self.skip_reasons[disposition.value, pair["reason"]] += count
        if "requests" in pair:  # counted together, since the run was stopped
            self.left_out += count if disposition in SENT else 0
            return
        self.rewrites.update(_kind_of_rewrite(note) for note in pair["rewrites"])
        self.checks.add(pair)
        sent = pair["sent"]
        if sent is None:
            return
        idle = is_idle_poll(pair)
        _add_waits(self.waits[f"{pair['api']} v{sent['version']}"], sent, idle)
        self.timeline.add(pair, idle=idle)
        self.latencies.add(pair, idle=idle)
        if sent["due_ns"] is not None:
            self.lags_ns[sent["cause"] or "on time"].append(max(sent["sent_ns"] - sent["due_ns"], 0))
        _add_error(self.errors, pair)


def compare(run: dict[str, Any], pairs: Iterable[Pair], baseline: Latencies | None = None) -> dict[str, Any]:
    """Return the report on a run. Raise Unaccounted if the pairs are not as many as the captured requests.

    Performance is judged against the capture, or against the service times of a `baseline` run.
    """
    totals = _Totals()
    for pair in pairs:
        totals.add(pair)
    plan, dispositions = run["plan"], totals.dispositions
    check(plan["accounting"]["captured"], dispositions)
    report = {
        "format": FORMAT,
        "accounting": sums(dispositions),
        "apis": {name: dict(counts) for name, counts in sorted(totals.apis.items())},
        "skipped": [
            {"bucket": disposition, "reason": reason, "requests": count}
            for (disposition, reason), count in totals.skip_reasons.most_common()
        ],
        "errors": sorted(totals.errors.values(), key=_error_order),
        "checks": totals.checks.findings(run),
        "records": totals.checks.records(plan["names"]["topics"]),
        "latency": {
            name: _latency(waits, totals.latencies, LatencySubject(name))
            for name, waits in sorted(totals.waits.items())
        },
        "lag": _lag(totals.lags_ns),
        "course": totals.timeline.steps(),
        "rewrites": dict(totals.rewrites.most_common()),
        "left_out": totals.left_out,
        "run": {name: value for name, value in run.items() if name != "plan"},
        "capture": plan["capture"],
        "target": plan["target"],
        "settings": plan["settings"],
        "wanting": _wanting(totals.skip_reasons, sum(dispositions[each] for each in SENT)),
    }
    report["verdict"], report["because"] = verdict(report)
    latencies = totals.latencies
    reference, against = (latencies.captured, "capture") if baseline is None else (baseline, "baseline run")
    rows = compare_latencies(reference, latencies.replayed)
    report["performance"] = performance_verdict(rows, against, _throttled(run, latencies.replayed))
    return report


def _throttled(run: Mapping[str, Any], replayed: Latencies) -> str:
    """Return that the target throttled, if that took long beside what responses took; else ""."""
    throttled = run.get("throttled") or {"ms": 0, "answers": 0}
    took_ns = sum(sum(values) for subject, values in replayed.items() if subject == (subject.api, "", -1))
    if throttled["ms"] * 1e6 <= LEAST_SHARE * took_ns or not throttled["ms"]:
        return ""
    return (
        f"the target throttled {throttled['answers']:,} responses, for {throttled['ms'] / 1000:.1f} s in all"
    )


def baseline_latencies(pairs: Iterable[Pair]) -> Latencies:
    """Return the service times of an earlier run, as the reference of a comparison."""
    latencies = RunLatencies()
    for pair in pairs:
        if pair.get("sent") is not None:
            latencies.add(pair, idle=is_idle_poll(pair))
    return latencies.replayed


def _error_order(error: Mapping[str, Any]) -> tuple[bool, bool, int]:
    """Sort what differs and counts first, the most frequent first."""
    return error["kind"] == "same", error["expected"], -error["requests"]


def _wanting(skip_reasons: Counter[tuple[str, str]], sent: int) -> dict[str, Any]:
    """Return how many requests could not be sent although no option excludes them, and the main reason."""
    lacking: Counter[str] = Counter()
    for (disposition, reason), count in skip_reasons.items():
        lacking[reason] += count if disposition in WANTING else 0
    main_reason = lacking.most_common(1)[0][0] if lacking.total() else ""
    return {"requests": lacking.total(), "of": lacking.total() + sent, "why": main_reason}


def _kind_of_rewrite(note: str) -> str:
    """Return a note without the partition or topic that it names, for counting notes of one kind together."""
    return note.split(":", maxsplit=1)[0] if note.startswith("without") else note


# Errors


def first_error(pair: Pair) -> int | None:
    """Return the first error code of the replayed responses, 0 for none; None if there is no response."""
    if not pair["answers"]:
        return None
    return next((entry["error"] for entry in final_entries(pair) if entry["error"]), 0)


def final_entries(pair: Pair) -> list[dict[str, Any]]:
    """Return the digest of all responses of a pair; what was sent again replaces its refusal."""
    first_round = len(pair["answers"]) - pair.get("again", 0)
    entries = [entry for answer in pair["answers"][:first_round] for entry in answer["digest"]]
    for answer in pair["answers"][first_round:]:
        for entry in answer["digest"]:
            refused = (
                number
                for number, earlier in enumerate(entries)
                if earlier["error"] and earlier["where"] == entry["where"]
            )
            place = next(refused, len(entries))
            entries[place : place + 1] = [entry]
    return entries


def _add_error(errors: dict[tuple[str, str, str], dict[str, Any]], pair: Pair) -> None:
    captured, replayed = pair["captured"]["error"], first_error(pair)
    if captured is None and (replayed is None or pair["bucket"] == Disposition.NO_ANSWER_DUE.value):
        return
    before = "no answer" if captured is None else error_name(captured)
    after = pair["bucket"] if replayed is None else error_name(replayed)
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
            "sample": _sample(pair),
        }
    errors[key]["requests"] += 1


def _sample(pair: Pair) -> dict[str, Any]:
    """Return where to find a pair: in the capture, and in the files of the run."""
    return {
        "connection": pair["connection"],
        "ordinal": pair["ordinal"],
        "client_id": pair["client_id"],
        "captured_time_ns": pair["captured"]["time_ns"],
        "sent_ns": pair["sent"]["sent_ns"],
        "where": next((entry["where"] for entry in final_entries(pair) if entry["error"]), ""),
    }


def _divergence(captured: int | None, replayed: int | None) -> str:
    if captured == replayed:
        return "same"
    if replayed == 0:
        return "vanished"
    return "mutated" if captured else "new"


# Times


def _add_waits(waits: _ApiWaits, sent: Mapping[str, Any], idle: bool) -> None:
    waits.throttle_ms += sent["throttle_ms"]
    waits.idle += idle
    if sent["received_ns"] is not None and sent["due_ns"] is not None and not idle:
        waits.response.append(sent["received_ns"] - sent["due_ns"])


def is_idle_poll(pair: Pair) -> bool:
    """Return whether a sent request waited for something to come: data, or the other members of a group.

    A fetch that did so on one side counts on neither: a replay may let it wait for another time.
    """
    sent = pair["sent"]
    if sent["received_ns"] is None:
        return False
    if pair["api"] in ("JoinGroup", "SyncGroup"):
        return True
    brought = {"Fetch": "records", "ShareFetch": "acquired"}.get(pair["api"])
    if brought is None:
        return False
    captured = pair["captured"]
    wait_ns = IDLE_SHARE * 1e6 * ((captured.get("request") or {}).get("max_wait_ms") or 0)
    empty = not any(entry.get(brought) for answer in pair["answers"] for entry in answer["digest"])
    if empty and sent["received_ns"] - sent["sent_ns"] >= wait_ns / max(pair.get("speed", 1), 1e-9):
        return True
    was_empty = not any(entry.get(brought) for entry in captured["digest"])
    return bool(wait_ns and was_empty and (captured["service_ns"] or 0) >= wait_ns)


def quantiles(values_ns: list[int]) -> dict[str, float] | None:
    """Return p50, p90, p99, p99.9 and max in ms, by nearest rank; None for no values."""
    if not values_ns:
        return None
    ordered = sorted(values_ns)
    found = {f"p{each / 10:g}": quantile(ordered, each) / 1e6 for each in QUANTILES_PER_MILLE}
    return found | {"max": ordered[-1] / 1e6}


def _latency(waits: _ApiWaits, latencies: RunLatencies, subject: LatencySubject) -> dict[str, Any]:
    services = latencies.replayed.get(subject, [])
    captured, service = quantiles(latencies.captured.get(subject, [])), quantiles(services)
    ratio = None
    if captured and service and captured["p99"]:
        ratio = service["p99"] / captured["p99"]
    return {
        "requests": len(services),
        "few": len(services) < FEW,
        "captured_ms": captured,
        "service_ms": service,
        "response_ms": quantiles(waits.response),
        "p99_ratio": ratio,
        "idle_polls": waits.idle,
        "throttle_ms": waits.throttle_ms,
    }


def _lag(lags_ns: Mapping[str, list[int]]) -> dict[str, Any]:
    """Return how late requests were sent: all, those without a cause outside the replayer, and by cause.

    A request that waited for something else was not late by the replayer, so it counts as 0 in `own_ms`.
    """
    all_lags = [lag for lags in lags_ns.values() for lag in lags]
    own = lags_ns.get("self", []) + lags_ns.get("on time", [])
    own_late = sum(1 for lag in lags_ns.get("self", ()) if lag > SATURATED_NS)
    return {
        "all_ms": quantiles(all_lags),
        "own_ms": quantiles(own + [0] * (len(all_lags) - len(own))),
        "late": sum(1 for lag in all_lags if lag > SATURATED_NS),
        "own_late": own_late,
        "own_late_share": own_late / len(all_lags) if all_lags else 0.0,
        "causes": {
            cause: {"requests": len(lags), "ms": quantiles(lags)} for cause, lags in sorted(lags_ns.items())
        },
    }


# Noise


def without_noise(report: dict[str, Any], other: Mapping[str, Any]) -> None:
    """Mark in `report` what a second, identical run shows too: divergence that the target has by itself."""
    noise = {_identity(error): error["requests"] for error in other["errors"]}
    for error in report["errors"]:
        error["noise"] = noise.get(_identity(error), 0)
        if error["kind"] != "same" and not error["expected"] and error["requests"] <= error["noise"]:
            error["expected"] = error["is_noise"] = True
    lacking = {each["check"]: each.get("lacking", 0) for each in other["checks"]}
    for each in report["checks"]:
        if 0 < each.get("lacking", 0) <= lacking.get(each["check"], 0):
            each["holds"], each["found"] = True, f"{each['found']}; as in the noise run"
    for name, latency in report["latency"].items():
        second = other["latency"].get(name)
        latency["noise_service_ms"] = second["service_ms"] if second else None
    report["noise"] = {"run": other["run"].get("id"), "verdict": other["verdict"]}
    report["verdict"], report["because"] = verdict(report)


def _identity(error: Mapping[str, Any]) -> tuple[str, str, str]:
    return error["api"], error["captured"], error["replayed"]
