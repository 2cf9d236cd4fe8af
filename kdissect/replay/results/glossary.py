"""What the words of a comparison mean, for readers of the text and of the page alike."""

from collections.abc import Mapping
from typing import Any

VERDICTS = {
    "pass": "The target answered as the captured cluster did, but for what every cluster has of its own.",
    "diverged": "The target answered otherwise than the captured cluster.",
    "invalid": "No judgement on the target: the run itself was not as it should be.",
}
OF_THE_CLUSTER = (
    "of the cluster: leaders, coordinators and sessions change at times of their own; no divergence"
)
CAUSES = {
    "on time": "within 2 ms of its moment",
    "self": "the replayer was busy: too much of this, at pace schedule, makes a run invalid",
    "dependency": "what it needs another request had to get first",
    "in-flight cap": "no more may be in flight than its client had: the target answers later than the captured cluster",
    "connecting": "its connection was not open yet",
    "throttle": "the target had asked for silence",
    "rate cap": "--max-rps or --max-mbps",
    "connection cap": "--max-connections",
}
RULES = {
    "produced": "behind what this run wrote",
    "fetched": "where its client was",
    "anchored": "as far from the log's start",
    "identity": "as captured",
}
TOO_BUSY = "; give it a machine of its own, a lower --speed, or --pace think"


def rules_told(rules: Mapping[str, Mapping[str, int]]) -> str:
    """Explain the rules that were used."""
    used = {rule for each in rules.values() for rule in each}
    return "; ".join(f"{rule}: {RULES[rule]}" for rule in RULES if rule in used)


def kind_of(error: Mapping[str, Any]) -> str:
    """Say what became of an error."""
    about = str(error["kind"])
    if about == "same":
        return about
    if error.get("noise"):
        about += f", {error['noise']:,} in the noise run"
    return about + (", of the cluster" if error["expected"] and not error.get("is_noise") else "")


def first_at(error: Mapping[str, Any], start_ns: int) -> str:
    """Say where an error was seen first: the time as `--since` takes it, the pair as pairs.jsonl has it."""
    sample = error["sample"]
    since = (sample["captured_time_ns"] - start_ns) / 1e9
    return f"+{since:.3f}s connection {sample['connection']} #{sample['ordinal']} {sample['where']}".rstrip()


def noise_told(report: Mapping[str, Any]) -> str:
    """Say what a second run is there for; nothing without one."""
    noise = report.get("noise")
    if not noise:
        return ""
    return f"Noise: run {noise['run']} ({noise['verdict']}) shows what differs from run to run; an error that it has as often does not count"
