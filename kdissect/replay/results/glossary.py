"""Meaning of the words of a comparison, for readers of the text and of the page alike."""

from collections.abc import Mapping
from typing import Any

from kdissect.text import format_duration

VERDICTS = {
    "pass": (
        "The target answered as the captured cluster did, except for what differs between any two clusters."
    ),
    "diverged": "The target answered differently from the captured cluster.",
    "invalid": "The run says nothing about the target: the run itself was not sound.",
}
PERFORMANCES = {
    "slower": "The target took longer than the {against}, beyond the uncertainty of both samples.",
    "same": "The target took as long as the {against}.",
    "faster": "The target took less time than the {against}.",
    "too few to tell": "There are too few requests to compare latencies with the {against}.",
}
OF_THE_CLUSTER = (
    "of the cluster: leaders, coordinators and sessions change at times of their own; not a divergence"
)
CAUSES = {
    "on time": "within 2 ms of its due time",
    "self": "the replayer was busy (a run at --pace schedule is invalid if this is frequent)",
    "dependency": "another request had to get what it needs first",
    "in-flight cap": (
        "its client had no more requests in flight; the target responds later than the captured cluster"
    ),
    "connecting": "its connection was not open yet",
    "throttle": "the target throttled the connection",
    "rate cap": "--max-rps or --max-mbps",
    "connection cap": "--max-connections",
}
RULES = {
    "produced": "after what this run wrote",
    "fetched": "where its client was",
    "anchored": "at the same distance from the start of the log",
    "identity": "as captured",
}
TOO_BUSY = "; give it a machine of its own, a lower --speed, or --pace think"


def used_rules(rules: Mapping[str, Mapping[str, int]]) -> str:
    """Return the rules that translated offsets, with their meaning."""
    used = {rule for counts in rules.values() for rule in counts}
    return "; ".join(f"{rule}: {meaning}" for rule, meaning in RULES.items() if rule in used)


def pace_facts(settings: Mapping[str, Any]) -> list[str]:
    """Return when the requests of a run were due, in a few words for each setting."""
    facts = [f"pace {settings['pace']}", f"speed {settings['speed']:g}"]
    if settings.get("ramp_s"):
        facts.append(f"ramp {format_duration(round(settings['ramp_s'] * 1e9))}")
    if settings.get("max_gap_s") is not None:
        facts.append(f"pauses of at most {format_duration(round(settings['max_gap_s'] * 1e9))}")
    return facts


def performance_note(performance: Mapping[str, Any]) -> str:
    """Return what the verdict on performance means."""
    return PERFORMANCES[performance["verdict"]].format(against=performance["against"])


def change_of(error: Mapping[str, Any]) -> str:
    """Return what became of a captured error, and whether it counts."""
    kind = str(error["kind"])
    if kind == "same":
        return kind
    if error.get("noise"):
        kind += f", {error['noise']:,} in the noise run"
    return kind + (", of the cluster" if error["expected"] and not error.get("is_noise") else "")


def first_place(error: Mapping[str, Any], start_ns: int) -> str:
    """Return where an error was seen first: its time as `--since` takes it, its pair as in pairs.jsonl."""
    sample = error["sample"]
    since_s = (sample["captured_time_ns"] - start_ns) / 1e9
    return (
        f"+{since_s:.3f}s connection {sample['connection']} #{sample['ordinal']} {sample['where']}".rstrip()
    )


def noise_note(report: Mapping[str, Any]) -> str:
    """Return what the noise run of a comparison shows; "" without one."""
    noise = report.get("noise")
    if not noise:
        return ""
    return (
        f"Noise: run {noise['run']} ({noise['verdict']}) shows what differs from run to run; "
        "an error that it has as often does not count"
    )
