"""Plans and comparisons as text for a terminal. Everything that came from a capture or a target is escaped.

A section is a title and lines; one without lines is left out. Lines are as long as they have to be: reasons
are sentences, and a terminal wraps them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from kdissect.replay.results.glossary import (
    OF_THE_CLUSTER,
    VERDICTS,
    change_of,
    noise_note,
    pace_facts,
    performance_note,
    used_rules,
)
from kdissect.replay.results.run_tables import (
    Report,
    RunTable,
    Value,
    error_table,
    figures,
    lag_table,
    latency_table,
    offset_table,
    record_table,
    rewrite_table,
    skipped_table,
    start_spread,
    sum_of_requests,
    words,
)
from kdissect.replay.settings import Pace
from kdissect.report.render.table import TableCell, table_lines
from kdissect.report.render.terminal import Terminal
from kdissect.report.wording import counted
from kdissect.text import escape, format_duration, format_share, format_size

PAPER = Terminal(width=1 << 16)
MOSTLY = 0.5  # the share of the load above which what ties it together is named
PLAN_COUNTS = ("captured", "sent", "converted", "retries", "skipped")


def plan_text(plan: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a plan."""
    yield from _plan_subject(plan)
    yield ""
    yield from _plan_load(plan)
    yield ""
    yield from _table(
        RunTable(
            (*words("API"), *figures(*PLAN_COUNTS)),
            [(name, *(counts.get(each, 0) for each in PLAN_COUNTS)) for name, counts in plan["apis"].items()],
        )
    )
    yield from _plan_skipped(plan)
    yield from _section("Lost in conversion", _counted(plan["losses"]))
    yield from _section("Topics", _table(_plan_topics(plan)))
    names = plan["names"]
    renamed = {**names["groups"], **names["transactional_ids"]}
    by_hand = names.get("topic_ids", {})
    yield from _section(
        "Groups and transactional ids", (f" {_(old)} → {_(new)}" for old, new in renamed.items())
    )
    yield from _section("Topic ids by hand", (f" {_(old)} = {_(name)}" for old, name in by_hand.items()))
    yield from _section("Timers", (f" {line}" for line in plan["timers"]))
    yield from _section("Warnings", (f" {_(line)}" for line in plan["warnings"]))


def _plan_subject(plan: Mapping[str, Any]) -> Iterator[str]:
    capture, target = plan["capture"], plan["target"]
    yield f"Replay of {_(', '.join(capture['files']))}"
    yield (
        f"  {counted(capture['requests'], 'request')} on {counted(capture['connections'], 'connection')} "
        f"({capture['headless_connections']:,} older than the capture), "
        f"from {counted(capture['client_hosts'], 'client host')}"
    )
    yield f"  onto cluster {_(target['cluster_id'])}: {_(', '.join(target['nodes'].values()))}"
    yield f"  instead of {_(', '.join(capture['cluster_ids']) or 'a cluster of unknown id')}"


def _largest_component(components: Mapping[str, Any]) -> Iterator[str]:
    """Return what keeps most of the load on one process, if something does."""
    largest = components["largest"]
    if largest is None or largest["share"] <= MOSTLY or not largest["ties"]:
        return
    ties = (f"{each['kind']} {_(each['name'])} ({each['connections']:,})" for each in largest["ties"])
    yield (
        f"  {format_share(largest['share'])} of the load stays on one process: its "
        f"{largest['connections']:,} connections share {', '.join(ties)}. Any number of processes sends "
        f"at most {1 / largest['share']:.1f} times as fast as one"
    )


def pace_words(plan: Mapping[str, Any]) -> str:
    """Return how long sending takes, and how much is sent in a second at most."""
    load, settings = plan["load"], plan["settings"]
    if settings["pace"] == Pace.ASAP:
        return "as fast as the target answers, at pace asap"
    return (
        f"{format_duration(round(load['duration_s'] * 1e9))} at {', '.join(pace_facts(settings))}; "
        f"at most {load['peak_requests_per_s']:,.0f} requests and "
        f"{format_size(round(load['peak_bytes_per_s']))} in a second"
    )


def names_left(prefix: str) -> str:
    """Return which names a target keeps from a run."""
    which = f"begin with {prefix}" if prefix else "are the captured ones"
    return f"names on the target {which}, and stay there after the run"


def _plan_load(plan: Mapping[str, Any]) -> Iterator[str]:
    accounting, load = plan["accounting"], plan["load"]
    yield (
        f"Would send {accounting['sent']:,}, skip {accounting['skipped']:,}, "
        f"of {accounting['captured']:,} captured."
    )
    yield f"  {pace_words(plan)}; {format_size(load['bytes'])} on {load['connections']:,} connections"
    if len(load["processes"]) > 1:
        yield (
            f"  by {len(load['processes'])} processes, the busiest with {max(load['processes']):,} requests: "
            "connections that share a producer, a group or a topic's offsets stay together"
        )
    yield from _largest_component(load["components"])
    yield (
        f"  {plan['records']:,} records in {format_size(plan['record_bytes'])} of batches; "
        f"{plan['retries']:,} requests repeat an earlier one"
    )


def _plan_skipped(plan: Mapping[str, Any]) -> Iterator[str]:
    skipped = RunTable(
        (*figures("requests"), *words("API", "skipped as", "reason")),
        [(each["requests"], each["api"], each["bucket"], each["reason"]) for each in plan["skipped"]],
    )
    converted = RunTable(
        (*figures("requests"), *words("API"), *figures("captured", "sent")),
        [(each["requests"], each["api"], each["captured"], each["sent"]) for each in plan["conversions"]],
    )
    yield from _section("Skipped, and why", _table(skipped))
    yield from _section("Other versions", _table(converted))


def _plan_topics(plan: Mapping[str, Any]) -> RunTable:
    return RunTable(
        (*words("topic", "on the target"), *figures("partitions"), *words("differs")),
        [
            (topic["topic"], topic["target"], topic["partitions"], "; ".join(topic["differences"]) or None)
            for topic in plan["topics"]
        ],
    )


def comparison_text(report: Report) -> Iterator[str]:
    """Yield the lines of a comparison."""
    yield from _verdict(report)
    yield ""
    yield from _accounting(report)
    yield from _section("Skipped, and why", _table(skipped_table(report)))
    yield from _errors(report)
    yield from _section("Checks", map(_check, report["checks"]))
    yield from _records(report)
    yield from _section(
        "Latency (captured: at the capture point; service: from sending; response: from the scheduled time)",
        _table(latency_table(report)),
    )
    yield from _section("Behind schedule, and why", _table(lag_table(report)))
    rules = report["run"]["offsets"]["rules"]
    yield from _section("Offsets, by rule", _table(offset_table(report)))
    if rules:
        yield f"  {used_rules(rules)}"
    yield from _section("Rewrites", _table(rewrite_table(report)))


def _verdict(report: Report) -> Iterator[str]:
    run, settings = report["run"], report["settings"]
    yield f"Correctness: {report['verdict'].upper()}. {VERDICTS[report['verdict']]}"
    yield from (f"  {_(line)}" for line in report["because"])
    performance = report["performance"]
    yield f"Performance: {performance['verdict'].upper()}. {performance_note(performance)}"
    yield from (f"  {_(line)}" for line in performance["because"])
    yield ""
    files, cluster_id = ", ".join(report["capture"]["files"]), report["target"]["cluster_id"]
    yield f"Run {_(run['id'])}, kdissect {_(run['kdissect'])}: {_(files)} onto cluster {_(cluster_id)}"
    facts = *pace_facts(settings), f"groups {settings['groups']}", f"offsets {settings['offsets']}"
    yield f"  {', '.join(facts)}"
    yield from _workers(run.get("workers") or ())
    if settings["tls"] == "certificates are not checked":
        yield "  TLS certificates were not checked"
    note = noise_note(report)
    if note:
        yield from ("", _(note))


def _workers(workers: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield where a run was sent from, if several machines did."""
    if not workers:
        return
    count = f"{len(workers)} workers" if len(workers) > 1 else "1 worker"
    yield f"  {count}: {start_spread(workers)}"
    for worker in workers:
        ended = "" if not worker["lost"] else f", of which {worker['ended']:,} are known to have ended"
        yield (
            f"    worker {worker['number']} on {_(worker['host'])}: {worker['requests']:,} requests of "
            f"{worker['connections']:,} connections{ended}"
        )


def _accounting(report: Report) -> Iterator[str]:
    accounting, synthetic = report["accounting"], report["run"]["synthetic"]
    yield sum_of_requests(accounting)
    for name in ("sent", "skipped"):
        parts = [f"{count:,} {bucket}" for bucket, count in accounting[f"{name}_as"].items() if count]
        yield f"  {name} = {' + '.join(parts) or '0'}"
    own = ", ".join(f"{count:,} {name}" for name, count in synthetic.items())
    yield f"  sent beside these, for the replayer itself: {own or 'nothing'}"


def _errors(report: Report) -> Iterator[str]:
    errors = report["errors"]
    yield from _section("Errors, captured against replayed", _table(error_table(report, errors)))
    if any("of the cluster" in change_of(error) for error in errors):
        yield f"  {OF_THE_CLUSTER}"


def _check(check: Mapping[str, Any]) -> str:
    found = f": {_(check['found'])}" if check["found"] else ""
    return f" {'ok  ' if check['holds'] else 'FAIL'} {check['check']}{found}"


def _records(report: Report) -> Iterator[str]:
    records = report["records"]
    yield from _section("Records acknowledged", _table(record_table(report)))
    if records["sent_without_acknowledgement"]:
        yield f"  {records['sent_without_acknowledgement']:,} records were sent with acks=0"
    yield (
        f"  fetched: {records['fetched_captured']:,} in the capture, "
        f"{records['fetched_replayed']:,} on the target"
    )
    for each in (records["amplification"] or {}).get("reasons", ()):
        yield f"    {each['records']:,} {each['reason']}"


def _section(title: str, lines: Iterable[str]) -> Iterator[str]:
    found = list(lines)
    if found:
        yield from ("", title, *found)


def _counted(counts: Mapping[str, int]) -> Iterator[str]:
    return (f" {count:,} × {_(what)}" for what, count in counts.items())


def _table(table: RunTable) -> list[str]:
    """Return the lines of a table; none for one without rows."""
    rows = [[TableCell(_cell(value)) for value in row] for row in table.rows]
    return table_lines(table.columns, rows, PAPER) if rows else []


def _cell(value: Value) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else _(value)


def _(value: object) -> str:
    return escape(str(value))
