"""The comparison as one HTML page that needs nothing else: no script, no address of another server."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from math import log10
from typing import Any

from kdissect.safe import escaped

STYLE = """
body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:72rem;padding:0 1rem;color:#1b1f24;background:#fff}
h1{font-size:1.5rem}h2{font-size:1.1rem;margin-top:2rem}
table{border-collapse:collapse;width:100%;font-size:.9rem}td,th{padding:.25rem .6rem;text-align:left;border-bottom:1px solid #d8dee4}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}
.pass{color:#116329}.diverged,.invalid,.bad{color:#a40e26}.quiet{color:#59636e}
.bar{display:flex;height:1rem;border-radius:3px;overflow:hidden}.bar span{display:block}
svg text{font:11px system-ui,sans-serif;fill:#59636e}
@media(prefers-color-scheme:dark){body{color:#e6edf3;background:#0d1117}td,th{border-color:#30363d}.pass{color:#56d364}
.diverged,.invalid,.bad{color:#ff7b72}.quiet,svg text{color:#9198a1;fill:#9198a1}}
"""
COLOURS = ("#1a7f64", "#7aa7d9", "#c98a1b", "#b4467e", "#8a6fc1", "#8c959f")
LATENCY_HEAD = (
    "API", "n", "captured p50", "captured p99", "service p50", "service p99", "response p50", "response p99", "p99 ratio",
    "waited",
)  # fmt: skip


def page(report: Mapping[str, Any]) -> str:
    """Write the page."""
    return "\n".join(_page(report)) + "\n"


def _page(report: Mapping[str, Any]) -> Iterator[str]:
    verdict, run, sums = report["verdict"], report["run"], report["accounting"]
    yield "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
    yield f"<title>Replay {_(run['id'])}: {verdict}</title><style>{STYLE}</style>"
    yield f"<h1>Replay {_(run['id'])}: <span class={verdict}>{verdict}</span></h1>"
    yield f"<p>{_(', '.join(report['capture']['files']))} onto cluster {_(report['target']['cluster_id'])}, pace {_(report['settings']['pace'])}, speed {report['settings']['speed']:g}</p>"
    if report["because"]:
        yield "<ul>" + "".join(f"<li class=bad>{_(line)}" for line in report["because"]) + "</ul>"
    yield "<h2>Every captured request</h2>"
    yield f"<p>{sums['captured']:,} captured = {sums['sent']:,} sent + {sums['skipped']:,} skipped</p>"
    buckets = [
        (name, count) for part in ("sent_as", "skipped_as") for name, count in sums[part].items() if count
    ]
    yield _bar(buckets)
    yield _table(("bucket", "requests"), buckets)
    yield _table(
        ("skipped as", "reason", "requests"),
        [(each["bucket"], each["reason"], each["requests"]) for each in report["skipped"]],
    )
    yield "<h2>Errors, captured against replayed</h2>"
    yield _table(
        ("API", "captured", "replayed", "", "requests", "first at"),
        [
            (
                each["api"], each["captured"], each["replayed"],
                each["kind"] + (" (of the cluster)" if each["expected"] and each["kind"] != "same" else ""), each["requests"],
                f"connection {each['sample']['connection']} #{each['sample']['ordinal']} {each['sample']['where']}",
            )
            for each in report["errors"]
        ],
    ) or "<p class=quiet>none on either side</p>"  # fmt: skip
    yield "<h2>Checks</h2><ul>"
    for each in report["checks"]:
        yield f"<li class={'pass' if each['holds'] else 'bad'}>{_(each['check'])}{': ' + _(each['found']) if each['found'] else ''}"
    yield "</ul><h2>Records acknowledged</h2>"
    records = report["records"]
    yield _table(
        ("topic", "on the target", "captured", "replayed"),
        [(each["topic"], each["target"], each["captured"], each["replayed"]) for each in records["topics"]],
    )
    yield f"<p class=quiet>{records['sent_without_acknowledgement']:,} records were sent with acks=0; fetches brought {records['fetched_captured']:,} records in the capture, {records['fetched_replayed']:,} on the target</p>"
    yield "<h2>Latency, ms</h2>"
    yield "<p class=quiet>Captured: as seen where the capture was taken. Service: from sending to the answer. Response: from the scheduled moment, so that waiting of our own shows.</p>"
    yield _latency_bars(report["latency"])
    yield _table(LATENCY_HEAD, list(_latency(report["latency"])))
    yield "<h2>Behind schedule</h2>"
    yield _table(
        ("cause", "requests", "p50 ms", "p99 ms", "max ms"),
        [
            (cause, each["requests"], *(_ms(each["ms"], name) for name in ("p50", "p99", "max")))
            for cause, each in report["lag"]["causes"].items()
        ],
    )
    yield "<h2>Rewrites and offsets</h2>"
    yield _table(("rewrite", "requests"), list(report["rewrites"].items()))
    yield _table(
        ("partition", "offsets translated by"),
        [
            (where, ", ".join(f"{rule} × {count:,}" for rule, count in rules.items()))
            for where, rules in run["offsets"]["rules"].items()
        ],
    )
    yield f"<p class=quiet>kdissect {_(run['kdissect'])}; {run['connections']['opened']:,} connections opened, {run['connections']['refused']:,} refused, {run['connections']['closed_by_peer']:,} closed by the target; at most {run['peak_in_flight']:,} requests in flight on {run['peak_lines']:,} connections</p>"


def _latency(latency: Mapping[str, Any]) -> Iterator[tuple[object, ...]]:
    for name, each in latency.items():
        ratio = "-" if each["p99_ratio"] is None else f"{each['p99_ratio']:.2f}"
        cells = [
            _ms(each[kind], mark)
            for kind in ("captured_ms", "service_ms", "response_ms")
            for mark in ("p50", "p99")
        ]
        yield (name, each["requests"], *cells, ratio + (" (few)" if each["few"] else ""), each["idle_polls"])


def _latency_bars(latency: Mapping[str, Any]) -> str:
    """Draw captured and replayed p99 side by side, on a logarithmic scale."""
    shown = [(name, each) for name, each in latency.items() if each["captured_ms"] and each["service_ms"]][
        :16
    ]
    if not shown:
        return ""
    rows, height = [], 34
    for number, (name, each) in enumerate(shown):
        top = number * height
        rows.append(f"<text x=0 y={top + 20}>{_(name)}</text>")
        for line, (kind, colour) in enumerate((("captured_ms", COLOURS[1]), ("service_ms", COLOURS[0]))):
            value = each[kind]["p99"]
            width = max(2.0, _log(value))
            rows.append(f"<rect x=190 y={top + 6 + 12 * line} width={width:.0f} height=10 fill={colour} />")
            rows.append(f"<text x={196 + width:.0f} y={top + 15 + 12 * line}>{value:,.1f}</text>")
    return f"<p class=quiet>99th percentile, captured above, replayed below, logarithmic</p><svg width=100% viewBox='0 0 900 {len(shown) * height + 8}'>{''.join(rows)}</svg>"


def _log(ms: float) -> float:
    return 110 * max(0.0, log10(max(ms, 0.01)) + 2)


def _bar(parts: Sequence[tuple[str, int]]) -> str:
    total = sum(count for _, count in parts) or 1
    spans = "".join(
        f"<span title='{_(name)}: {count:,}' style='width:{100 * count / total:.2f}%;background:{COLOURS[at % len(COLOURS)]}'></span>"
        for at, (name, count) in enumerate(parts)
    )
    return f"<div class=bar>{spans}</div>"


def _ms(values: Mapping[str, float] | None, name: str) -> str:
    return "-" if values is None else f"{values[name]:,.2f}"


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    found = list(rows)
    if not found:
        return ""
    number = [
        all(isinstance(row[at], int) or str(row[at])[:1].isdecimal() or row[at] == "-" for row in found)
        for at in range(len(head))
    ]
    marks = [" class=n" if each else "" for each in number]
    lines = [
        "<tr>"
        + "".join(f"<th{mark}>{_(cell)}</th>" for cell, mark in zip(head, marks, strict=True))
        + "</tr>"
    ]
    for row in found:
        cells = (f"{cell:,}" if isinstance(cell, int) else _(cell) for cell in row)
        lines.append(
            "<tr>"
            + "".join(f"<td{mark}>{cell}</td>" for cell, mark in zip(cells, marks, strict=True))
            + "</tr>"
        )
    return f"<table>{''.join(lines)}</table>"


def _(value: object) -> str:
    return escape(escaped(str(value)), quote=True)
