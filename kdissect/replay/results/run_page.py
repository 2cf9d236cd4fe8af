"""The comparison as one HTML page that needs nothing else: no script, no address of another server; of one family with the report's."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
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
from kdissect.replay.results.svg import (
    STYLE,
    latency_bars,
    shares_bar,
    timeline_charts,
)
from kdissect.report.render.html.style import policy, still
from kdissect.text import escape as escaped

LATENCY_HEAD = (
    "API", "requests", "p99, captured above replayed", "captured p50", "p99", "service p50", "p99", "response p50", "p99",
    "ratio of p99", "waited",
)  # fmt: skip
OUTCOMES = {"pass": "good", "diverged": "bad", "invalid": "warn"}
MOST_REASONS = 6
VERDICT_STYLE = """
.top h1 { font-size: 34px; letter-spacing: -0.02em; }
.verdict { margin-top: 14px; padding: 10px 16px; border-left: 4px solid currentColor; background: var(--note-ground); border-radius: 2px 6px 6px 2px; }
.verdict.bad { background: var(--bad-ground); } .verdict.warn { background: var(--warn-ground); }
.verdict p, .verdict li { color: var(--ink); margin: 0; } .verdict p { font-weight: 600; }
.verdict ul { margin: 6px 0 0; padding-left: 20px; font-size: 14px; } .verdict li { padding: 2px 0; overflow-wrap: anywhere; }
"""
SHORT = 22  # characters that are not broken


def page(report: Mapping[str, Any]) -> str:
    """Write the page."""
    return "\n".join(_page(report)) + "\n"


def _page(report: Mapping[str, Any]) -> Iterator[str]:
    style = still() + VERDICT_STYLE + STYLE
    yield "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
    yield f"<meta http-equiv='Content-Security-Policy' content=\"{_(policy(style))}\">"
    yield "<meta name='viewport' content='width=device-width, initial-scale=1'><meta name='color-scheme' content='light dark'>"
    yield f"<title>Replay {_(report['run']['id'])}: {_(report['verdict'])}</title><style>{style}</style></head><body>"
    yield from _top(report)
    yield "<main><div class='wide'>"
    yield from _figures(report)
    yield from _requests(report)
    yield from _course(report)
    yield from _differences(report)
    yield from _records(report)
    yield from _latencies(report)
    yield from _carried_over(report)
    yield "</div></main>"
    yield from _foot(report["run"])
    yield "</body></html>"


def _top(report: Mapping[str, Any]) -> Iterator[str]:
    verdict, settings = report["verdict"], report["settings"]
    outcome = OUTCOMES.get(verdict, "soft")
    facts = (
        f"run {report['run']['id']}",
        f"{', '.join(report['capture']['files'])} onto cluster {report['target']['cluster_id']}",
        f"pace {settings['pace']}",
        f"speed {settings['speed']:g}",
        f"groups {settings['groups']}",
    )
    yield "<header class='top'><div class='wide'><div><div class='brand'>kdissect replay</div>"
    yield f"<h1 class='{outcome}'>{_(verdict.capitalize())}</h1>"
    yield f"<p class='meta'>{''.join(f'<span>{_(fact)}</span>' for fact in facts)}</p>"
    yield f"<div class='verdict {outcome}'><p>{_(VERDICTS[verdict])}</p>"
    if report["because"]:
        shown = [f"<li>{_(line)}</li>" for line in report["because"][:MOST_REASONS]]
        more = len(report["because"]) - MOST_REASONS
        yield f"<ul>{''.join(shown)}{f'<li>and {more} more, below</li>' if more > 0 else ''}</ul>"
    yield "</div>"
    if noise_told(report):
        yield f"<p class='meta'>{_(noise_told(report))}</p>"
    yield "</div></div></header>"


def _figures(report: Mapping[str, Any]) -> Iterator[str]:
    sums, records = report["accounting"], report["records"]
    unlike = sum(
        each["requests"] for each in report["errors"] if each["kind"] != "same" and not each["expected"]
    )
    failed = sum(not each["holds"] for each in report["checks"])
    written = [sum(each[side] for each in records["topics"]) for side in ("captured", "replayed")]
    figures = (
        ("Captured requests", f"{sums['captured']:,}", ""),
        ("Sent", f"{sums['sent']:,}", _share(sums["sent"], sums["captured"])),
        ("Skipped", f"{sums['skipped']:,}", _share(sums["skipped"], sums["captured"])),
        ("Errors that differ", _good(unlike), "beside those of the cluster itself"),
        ("Checks that fail", _good(failed), f"of {len(report['checks'])}"),
        ("Records acknowledged", f"{written[1]:,}", f"{written[0]:,} when captured"),
    )
    yield "<section><div class='figures'>"
    for name, value, more in figures:
        yield f"<div class='figure'><div class='name'>{_(name)}</div><div class='value'>{value}</div><div class='more'>{_(more)}</div></div>"
    yield "</div></section>"


def _requests(report: Mapping[str, Any]) -> Iterator[str]:
    sums = report["accounting"]
    yield _head(
        "Every captured request",
        f"{sums['captured']:,} captured = {sums['sent']:,} sent + {sums['skipped']:,} skipped",
    )
    buckets = [
        (name, count) for part in ("sent_as", "skipped_as") for name, count in sums[part].items() if count
    ]
    yield shares_bar(buckets)
    yield _table(
        ("skipped as", "reason", "requests"),
        [(each["bucket"], each["reason"], each["requests"]) for each in report["skipped"]],
    )
    yield "</section>"


def _course(report: Mapping[str, Any]) -> Iterator[str]:
    if report["accounting"]["sent"]:
        yield _head("Course of the run", "captured against replayed, by the run's time")
        yield from timeline_charts(report["course"])
        yield "</section>"


def _differences(report: Mapping[str, Any]) -> Iterator[str]:
    yield _head("Errors", "captured against replayed")
    counted = [each for each in report["errors"] if each["kind"] != "same" and not each["expected"]]
    others = [each for each in report["errors"] if each not in counted]
    yield _errors(report, counted) or "<p class='empty good'>None that counts.</p>"
    if others:
        yield f"<p class='soft'>Not counted: the same on both sides, or {_(OF_THE_CLUSTER)}.</p>"
        yield _errors(report, others)
    yield "</section>"
    yield _head("Checks", "what must hold on any cluster")
    yield "<ul class='evidence'>"
    for each in report["checks"]:
        mark, word = ("good", "holds") if each["holds"] else ("bad", "fails")
        yield f"<li><span class='subject'>{_(each['check'])}</span> <span class='{mark}'>{word}{': ' + _(each['found']) if each['found'] else ''}</span></li>"
    yield "</ul></section>"


def _errors(report: Mapping[str, Any], errors: Iterable[Mapping[str, Any]]) -> str:
    return _table(
        ("API", "captured", "replayed", "what became of it", "requests", "first at"),
        [
            (each["api"], each["captured"], each["replayed"], kind_of(each), each["requests"], first_at(each, report["capture"]["start_ns"]))
            for each in errors
        ],
    )  # fmt: skip


def _records(report: Mapping[str, Any]) -> Iterator[str]:
    records = report["records"]
    yield _head("Records acknowledged", "by topic")
    yield (
        _table(
            ("topic", "on the target", "captured", "replayed"),
            [
                (each["topic"], each["target"], each["captured"], each["replayed"])
                for each in records["topics"]
            ],
        )
        or "<p class='empty'>Nothing was produced.</p>"
    )
    yield f"<p class='soft'>{records['sent_without_acknowledgement']:,} records were sent with acks=0; fetches brought {records['fetched_captured']:,} records in the capture, {records['fetched_replayed']:,} on the target.</p></section>"


def _latencies(report: Mapping[str, Any]) -> Iterator[str]:
    yield _head("Latency", "milliseconds, without idle waits; bars are logarithmic")
    yield "<p class='soft'>Captured: as seen where the capture was taken. Service: from sending to the answer. Response: from the scheduled moment, so that waiting of our own shows.</p>"
    yield _table(LATENCY_HEAD, list(_latency(report["latency"])))
    yield "</section>"
    yield _head("Behind schedule", "by cause, milliseconds")
    yield (
        _table(
            ("cause", "what it is", "requests", "p50", "p99", "max"),
            [
                (
                    cause,
                    CAUSES.get(cause, ""),
                    each["requests"],
                    *(_ms(each["ms"], name) for name in ("p50", "p99", "max")),
                )
                for cause, each in report["lag"]["causes"].items()
            ],
        )
        or "<p class='empty good'>Every request was sent on time.</p>"
    )
    yield "</section>"


def _carried_over(report: Mapping[str, Any]) -> Iterator[str]:
    yield _head("Rewrites and offsets", "what was changed for the target beside names and ids")
    yield (
        _table(("rewrite", "requests"), list(report["rewrites"].items()))
        or "<p class='empty'>Nothing was rewritten.</p>"
    )
    yield _table(
        ("partition", "offsets translated by"),
        [
            (where, ", ".join(f"{rule} × {count:,}" for rule, count in rules.items()))
            for where, rules in report["run"]["offsets"]["rules"].items()
        ],
    )
    if report["run"]["offsets"]["rules"]:
        yield f"<p class='soft'>{_(rules_told(report['run']['offsets']['rules']))}</p>"
    yield "</section>"


def _foot(run: Mapping[str, Any]) -> Iterator[str]:
    connections = run["connections"]
    yield f"<footer class='foot'><div class='wide'>Made by kdissect {_(run['kdissect'])}. {connections['opened']:,} connections opened, {connections['refused']:,} refused, {connections['closed_by_peer']:,} closed by the target; at most {run['peak_in_flight']:,} requests in flight on {run['peak_lines']:,} connections. This file asks nothing of any network.</div></footer>"


class SvgCell(str):
    """A cell that is drawn already."""

    __slots__ = ()


def _latency(latency: Mapping[str, Any]) -> Iterator[tuple[object, ...]]:
    for (name, each), bars in zip(latency.items(), latency_bars(latency), strict=True):
        ratio = "-" if each["p99_ratio"] is None else f"{each['p99_ratio']:.2f}"
        cells = [
            _ms(each[kind], mark)
            for kind in ("captured_ms", "service_ms", "response_ms")
            for mark in ("p50", "p99")
        ]
        yield (
            name,
            each["requests"],
            SvgCell(bars),
            *cells,
            ratio + (" (few)" if each["few"] else ""),
            each["idle_polls"],
        )


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else ""


def _good(number: int) -> str:
    return f"<span class='bad'>{number:,}</span>" if number else "none"


def _ms(values: Mapping[str, float] | None, name: str) -> str:
    return "-" if values is None else f"{values[name]:,.2f}"


def _head(title: str, about: str) -> str:
    return f"<section><div class='head'><h2>{_(title)}</h2><span class='about'>{_(about)}</span></div>"


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    found = list(rows)
    if not found:
        return ""
    number = [
        all(isinstance(row[at], int) or str(row[at])[:1].isdecimal() or row[at] == "-" for row in found)
        for at in range(len(head))
    ]
    marks = [
        " class='n'" if each else " class='first'" if at == 0 else " class='t'"
        for at, each in enumerate(number)
    ]
    lines = [
        "<thead><tr>"
        + "".join(
            f"<th scope='col'{mark}>{_(cell if cell[1:2].isdigit() else cell[:1].upper() + cell[1:])}</th>"
            for cell, mark in zip(head, marks, strict=True)
        )
        + "</tr></thead><tbody>"
    ]
    lines += (
        "<tr>"
        + "".join(f"<td{mark}>{_cell(cell)}</td>" for cell, mark in zip(row, marks, strict=True))
        + "</tr>"
        for row in found
    )
    return f"<div class='scroll' tabindex='0'><table>{''.join(lines)}</tbody></table></div>"


def _cell(cell: object) -> str:
    if isinstance(cell, SvgCell):
        return cell
    if cell == "-":
        return "<span class='faint'>–</span>"
    if isinstance(cell, int):
        return f"{cell:,}"
    text = _(cell).replace("_", "_<wbr>")
    return (
        f"<span class='nowrap'>{text}</span>" if len(str(cell)) <= SHORT and not text[:1].isdigit() else text
    )


def _(value: object) -> str:
    return escape(escaped(str(value)), quote=True)
