"""Was the target slower: latencies of a run against those of the capture, or of a baseline run.

In: pairs one by one, as `pairs.jsonl` has them. Out: one row for each API, for each topic that a request
names alone, and against a baseline run for each broker, with two quantiles on either side and whether they
differ.

A quantile of a sample is uncertain, so two of them differ only if their confidence intervals (see
`report.aggregate.confidence`) do not touch. A captured latency was measured where the capture was taken and a
replayed one in the replayer. A difference therefore counts only from `LEAST_NS` on, and from `LEAST_SHARE` of
the reference on.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from kdissect.report.aggregate.confidence import confidence_ranks
from kdissect.report.aggregate.quantiles import quantile
from kdissect.text import format_duration

LEAST_NS = 2_000_000
LEAST_SHARE = 0.25
QUANTILES_PER_MILLE = (500, 990)
MOST_REASONS = 3
ANY_BROKER = -1

Pair = Mapping[str, Any]
Latencies = dict["LatencySubject", list[int]]


class LatencyDifference(StrEnum):
    """How a quantile of the run relates to that of the reference."""

    SLOWER = "slower"
    SAME = "same"
    FASTER = "faster"
    FEW = "too few to tell"


class LatencySubject(NamedTuple):
    """An API at a version, with the topic of its requests or the broker of the target that responded."""

    api: str
    topic: str = ""  # "" stands for all topics together
    broker: int = ANY_BROKER


class RunLatencies:
    """Service times of both sides in ns, by subject, without long polls that waited for data."""

    def __init__(self) -> None:
        self.captured: Latencies = defaultdict(list)
        self.replayed: Latencies = defaultdict(list)

    def add(self, pair: Pair, idle: bool) -> None:
        """Add a pair that was sent; `idle` is whether it waited for something to come."""
        sent, captured = pair["sent"], pair["captured"]
        if sent["received_ns"] is None or idle:
            return
        api, took_ns = f"{pair['api']} v{sent['version']}", sent["received_ns"] - sent["sent_ns"]
        if sent["parts"] == 1:
            self.replayed[LatencySubject(api, broker=sent["node"])].append(took_ns)
        for topic in ("", *_only_topic(captured)):
            subject = LatencySubject(api, topic)
            self.replayed[subject].append(took_ns)
            if captured["service_ns"] is not None:
                self.captured[subject].append(captured["service_ns"])


def _only_topic(captured: Mapping[str, Any]) -> Iterator[str]:
    """Yield the topic of a request that names exactly one."""
    topics = {str(entry["where"]).rpartition("-")[0] for entry in captured["digest"] if entry.get("where")}
    if len(topics) == 1:
        yield from filter(None, topics)


def compare_latencies(reference: Latencies, replayed: Latencies) -> list[dict[str, Any]]:
    """Return a row for each subject that both sides have: values in ms, the ratio, and the difference.

    Slower quantiles come first, the largest difference ahead.
    """
    rows = []
    for subject in sorted(replayed):
        if reference.get(subject):
            before, after = sorted(reference[subject]), sorted(replayed[subject])
            rows += [_row(subject, per_mille, before, after) for per_mille in QUANTILES_PER_MILLE]
    return sorted(rows, key=lambda row: (row["difference"] != LatencyDifference.SLOWER, -row["more_ms"]))


def _row(
    subject: LatencySubject, per_mille: int, reference: list[int], replayed: list[int]
) -> dict[str, Any]:
    before, after = quantile(reference, per_mille), quantile(replayed, per_mille)
    return {
        "api": subject.api,
        "topic": subject.topic or None,
        "broker": None if subject.broker == ANY_BROKER else subject.broker,
        "quantile": f"p{per_mille / 10:g}",
        "requests": len(replayed),
        "reference_ms": before / 1e6,
        "replayed_ms": after / 1e6,
        "more_ms": (after - before) / 1e6,
        "ratio": after / before if before else None,
        "difference": _difference(per_mille, reference, replayed).value,
    }


def _difference(per_mille: int, reference: list[int], replayed: list[int]) -> LatencyDifference:
    ranks = [confidence_ranks(len(values), per_mille) for values in (reference, replayed)]
    if ranks[0] is None or ranks[1] is None:
        return LatencyDifference.FEW
    (low_before, high_before), (low_after, high_after) = (
        (values[low - 1], values[high - 1])
        for values, (low, high) in ((reference, ranks[0]), (replayed, ranks[1]))
    )
    before, after = quantile(reference, per_mille), quantile(replayed, per_mille)
    if abs(after - before) < max(LEAST_NS, LEAST_SHARE * before):
        return LatencyDifference.SAME
    if low_after > high_before:
        return LatencyDifference.SLOWER
    return LatencyDifference.FASTER if high_after < low_before else LatencyDifference.SAME


def performance_verdict(
    rows: Iterable[Mapping[str, Any]], against: str, throttled: str = ""
) -> dict[str, Any]:
    """Return the verdict (slower, same, faster, too few to tell) and up to three sentences that decided it.

    `against` names the reference. The rows are those of `compare_latencies`. Rows of single topics explain,
    those of whole APIs decide, and one broker that is slower makes a target slower. So does `throttled`, a
    sentence on responses that came at once and told the client to wait (KIP-219).
    """
    rows = list(rows)
    decisive = [row for row in rows if row["topic"] is None and row["broker"] is None]
    slower = LatencyDifference.SLOWER
    decisive += [row for row in rows if row["broker"] is not None and row["difference"] == slower]
    found = {row["difference"] for row in decisive} | ({slower} if throttled else set())
    order = (LatencyDifference.SLOWER, LatencyDifference.FASTER, LatencyDifference.SAME)
    verdict = next((each for each in order if each in found), LatencyDifference.FEW)
    telling = [row for row in decisive if row["difference"] == verdict]
    because = (
        [_sentence(row, against) for row in telling[:MOST_REASONS]]
        if verdict != LatencyDifference.FEW
        else []
    )
    because = [throttled, *because][:MOST_REASONS] if throttled else because
    return {"verdict": verdict.value, "because": because, "against": against, "rows": rows}


def _sentence(row: Mapping[str, Any], against: str) -> str:
    before, after = (format_duration(round(row[name] * 1e6)) for name in ("reference_ms", "replayed_ms"))
    by = "" if row["broker"] is None else f" by broker {row['broker']}"
    return f"{row['quantile']} of {row['api']}{by}: {before} in the {against}, {after} on the target"
