"""Plans and comparisons as text for a terminal. Everything that came from a capture or a target is escaped."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from kdissect.replay.results.glossary import (
    CAUSES,
    OF_THE_CLUSTER,
    VERDICTS,
    first_at,
    kind_of,
    noise_told,
    rules_told,
)
from kdissect.text import escape


def plan_text(plan: Mapping[str, Any]) -> Iterator[str]:
    """Write a plan."""
    capture, target, load = plan["capture"], plan["target"], plan["load"]
    yield f"Replay of {escape(', '.join(capture['files']))}"
    yield f"  {capture['requests']:,} requests on {capture['connections']:,} connections ({capture['headless_connections']:,} older than the capture), from {capture['client_hosts']:,} client hosts"
    yield f"  onto cluster {_(target['cluster_id'])}: {_(', '.join(target['nodes'].values()))}"
    yield f"  instead of {_(', '.join(capture['cluster_ids']) or 'a cluster of unknown id')}"
    yield ""
    sums = plan["accounting"]
    yield f"Would send {sums['sent']:,}, skip {sums['skipped']:,}, of {sums['captured']:,} captured."
    yield f"  {load['duration_s']:.1f} s at pace {plan['settings']['pace']}, speed {plan['settings']['speed']:g}; at most {load['peak_requests_per_s']:,.0f} requests and {load['peak_bytes_per_s']:,.0f} bytes in a second; {load['bytes']:,} bytes on {load['connections']:,} connections"
    if len(load["processes"]) > 1:
        yield f"  by {len(load['processes'])} processes, the busiest with {max(load['processes']):,} requests: connections that share a producer, a group or a topic's offsets stay together"
    yield f"  {plan['records']:,} records in {plan['record_bytes']:,} bytes of batches; {plan['retries']:,} requests repeat an earlier one"
    yield ""
    yield from _table(
        ("API", "captured", "sent", "converted", "retries", "skipped"),
        [
            (
                name,
                *(
                    counts.get(column, 0)
                    for column in ("captured", "sent", "converted", "retries", "skipped")
                ),
            )
            for name, counts in plan["apis"].items()
        ],
    )
    yield from _section(
        "Skipped, and why",
        _table(
            ("requests", "API", "bucket", "reason"),
            [(each["requests"], each["api"], each["bucket"], each["reason"]) for each in plan["skipped"]],
        ),
    )
    yield from _section(
        "Other versions",
        _table(
            ("requests", "API", "captured", "sent"),
            [(each["requests"], each["api"], each["captured"], each["sent"]) for each in plan["conversions"]],
        ),
    )
    yield from _section(
        "Lost in conversion", (f"  {count:,} × {_(note)}" for note, count in plan["losses"].items())
    )
    yield from _section(
        "Topics",
        _table(
            ("topic", "on the target", "partitions", "differs"),
            [
                (each["topic"], each["target"], each["partitions"], "; ".join(each["differences"]) or "-")
                for each in plan["topics"]
            ],
        ),
    )
    renamed = {**plan["names"]["groups"], **plan["names"]["transactional_ids"]}
    yield from _section(
        "Groups and transactional ids", (f"  {_(old)} → {_(new)}" for old, new in renamed.items())
    )
    by_hand = plan["names"].get("topic_ids", {})
    yield from _section("Topic ids by hand", (f"  {_(old)} = {_(name)}" for old, name in by_hand.items()))
    yield from _section("Timers", (f"  {line}" for line in plan["timers"]))
    yield from _section("Heed", (f"  {_(line)}" for line in plan["warnings"]))


def comparison_text(report: Mapping[str, Any]) -> Iterator[str]:
    """Write a comparison."""
    yield f"Verdict: {report['verdict'].upper()}. {VERDICTS[report['verdict']]}"
    yield from (f"  {_(line)}" for line in report["because"])
    yield ""
    run, sums = report["run"], report["accounting"]
    yield f"Run {_(run['id'])}, kdissect {_(run['kdissect'])}: {_(', '.join(report['capture']['files']))} onto cluster {_(report['target']['cluster_id'])}"
    yield f"  pace {report['settings']['pace']}, speed {report['settings']['speed']:g}, groups {report['settings']['groups']}, offsets {report['settings']['offsets']}"
    if report["settings"]["tls"] == "certificates are not checked":
        yield "  TLS certificates were not checked"
    yield ""
    if noise_told(report):
        yield _(noise_told(report))
        yield ""
    yield f"{sums['captured']:,} captured = {sums['sent']:,} sent + {sums['skipped']:,} skipped"
    for name in ("sent_as", "skipped_as"):
        parts = [f"{count:,} {bucket}" for bucket, count in sums[name].items() if count]
        yield f"  {'sent' if name == 'sent_as' else 'skipped'} = {' + '.join(parts) or '0'}"
    yield f"  of its own: {', '.join(f'{count:,} {name}' for name, count in run['synthetic'].items()) or 'nothing'}"
    yield from _section(
        "Skipped, and why",
        _table(
            ("requests", "bucket", "reason"),
            [(each["requests"], each["bucket"], each["reason"]) for each in report["skipped"]],
        ),
    )
    yield from _section(
        "Errors, captured against replayed",
        _table(
            ("requests", "API", "captured", "replayed", "", "first at"),
            [
                (
                    each["requests"],
                    each["api"],
                    each["captured"],
                    each["replayed"],
                    kind_of(each),
                    first_at(each, report["capture"]["start_ns"]),
                )
                for each in report["errors"]
            ],
        ),
    )
    if any("of the cluster" in kind_of(each) for each in report["errors"]):
        yield f"  {OF_THE_CLUSTER}"
    yield from _section(
        "Checks",
        (
            f"  {'ok  ' if each['holds'] else 'FAIL'} {each['check']}{': ' + _(each['found']) if each['found'] else ''}"
            for each in report["checks"]
        ),
    )
    records = report["records"]
    yield from _section(
        "Records acknowledged",
        _table(
            ("topic", "on the target", "captured", "replayed"),
            [
                (each["topic"], each["target"], each["captured"], each["replayed"])
                for each in records["topics"]
            ],
        ),
    )
    if records["sent_without_acknowledgement"]:
        yield f"  {records['sent_without_acknowledgement']:,} records were sent with acks=0"
    yield f"  fetched: {records['fetched_captured']:,} in the capture, {records['fetched_replayed']:,} on the target"
    yield from _section(
        "Latency in ms (captured: at the capture point; service: from sending; response: from the scheduled time)",
        _latency(report["latency"]),
    )
    lag = report["lag"]
    yield from _section(
        "Behind schedule, in ms, and why",
        _table(
            ("cause", "requests", "p50", "p99", "max", ""),
            [
                (cause, each["requests"], *_few(each["ms"], ("p50", "p99", "max")), CAUSES.get(cause, ""))
                for cause, each in lag["causes"].items()
            ],
        ),
    )
    rules = run["offsets"]["rules"]
    yield from _section(
        "Offsets, by rule",
        _table(
            ("partition", "rules"),
            [
                (where, ", ".join(f"{rule} {count:,}" for rule, count in each.items()))
                for where, each in rules.items()
            ],
        ),
    )
    if rules:
        yield f"  {rules_told(rules)}"
    yield from _section(
        "Rewrites", (f"  {count:,} × {_(note)}" for note, count in report["rewrites"].items())
    )


def _latency(latency: Mapping[str, Any]) -> Iterator[str]:
    rows = []
    for name, each in latency.items():
        row: list[object] = [name, each["requests"]]
        row += _few(each["captured_ms"], ("p50", "p99"))
        row += _few(each["service_ms"], ("p50", "p99", "max"))
        row += _few(each["response_ms"], ("p50", "p99", "max"))
        row += [each["idle_polls"] or "", each["throttle_ms"] or ""]
        rows.append(tuple(row))
    head = (
        "API",
        "n",
        "captured p50",
        "p99",
        "service p50",
        "p99",
        "max",
        "response p50",
        "p99",
        "max",
        "waited",
        "throttled",
    )
    yield from _table(head, rows)


def _few(values: Mapping[str, float] | None, names: Sequence[str]) -> list[str]:
    return ["-" if values is None else f"{values[name]:,.1f}" for name in names]


def _section(title: str, lines: Iterable[str]) -> Iterator[str]:
    found = list(lines)
    if found:
        yield ""
        yield title
        yield from found


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    """Write a table; numbers stand right."""
    if not rows:
        return
    texts = [[f"{cell:,}" if isinstance(cell, int) else _(cell) for cell in row] for row in rows]
    widths = [max(len(head[at]), *(len(row[at]) for row in texts)) for at in range(len(head))]
    right = [
        all(isinstance(row[at], int) or str(row[at])[:1].isdecimal() or row[at] in ("-", "") for row in rows)
        for at in range(len(head))
    ]
    for row in (list(head), *texts):
        cells = [
            cell.rjust(width) if end else cell.ljust(width)
            for cell, width, end in zip(row, widths, right, strict=True)
        ]
        yield ("  " + "  ".join(cells)).rstrip()


def _(value: object) -> str:
    return escape(str(value))
