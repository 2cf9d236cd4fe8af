"""A comparison as one self-contained HTML page, without a script, in the style of the report's page.

Sections are functions that return markup, made of `html_elements`, which escape what is not markup. The
tables are those of the text (`run_tables`).
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kdissect.replay.results.glossary import (
    OF_THE_CLUSTER,
    VERDICTS,
    noise_note,
    pace_facts,
    performance_note,
    used_rules,
)
from kdissect.replay.results.html_elements import LINE_BREAK_HERE, NOTHING, Markup, element, joined, markup
from kdissect.replay.results.run_charts import STYLE as CHART_STYLE
from kdissect.replay.results.run_charts import latency_bars, shares_bar, timeline_charts
from kdissect.replay.results.run_tables import (
    Report,
    RunTable,
    Value,
    error_table,
    lag_table,
    latency_table,
    offset_table,
    record_table,
    rewrite_table,
    skipped_table,
    start_spread,
    sum_of_requests,
    words,
    worker_table,
)
from kdissect.report.render.html.page import content_security_policy, static_style
from kdissect.text import format_share

OUTCOMES = {"pass": "good", "diverged": "bad", "invalid": "warn"}
SPEEDS = {"slower": "warn", "same": "good", "faster": "good", "too few to tell": "soft"}
MOST_REASONS = 6
SHORT = 22  # characters that are not broken
VERDICT_STYLE = """
.top h1 { font-size: 34px; letter-spacing: -0.02em; }
.verdict {
  margin-top: 14px; padding: 10px 16px; border-left: 4px solid currentColor; background: var(--note-ground);
  border-radius: 2px 6px 6px 2px;
}
.verdict.bad { background: var(--bad-ground); } .verdict.warn { background: var(--warn-ground); }
.verdict p, .verdict li { color: var(--ink); margin: 0; } .verdict p { font-weight: 600; }
.verdict ul { margin: 6px 0 0; padding-left: 20px; font-size: 14px; }
.verdict li { padding: 2px 0; overflow-wrap: anywhere; }
"""

Row = tuple["Value | Markup", ...]


def page(report: Report) -> str:
    """Return the page of a comparison."""
    sections = (
        _figures,
        _requests,
        _timeline,
        _errors,
        _checks,
        _records,
        _latencies,
        _lags,
        _workers,
        _rewrites,
    )
    body = element(
        "body",
        _top(report),
        element("main", element("div", *(section(report) for section in sections), class_="wide")),
        _foot(report["run"]),
    )
    return f"<!doctype html>{element('html', _head(report), body, lang='en')}\n"


def _head(report: Report) -> Markup:
    style = Markup(static_style() + VERDICT_STYLE + CHART_STYLE)
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=content_security_policy(style)),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", f"Replay {report['run']['id']}: {report['verdict']}"),
        element("style", style),
    )


def _top(report: Report) -> Markup:
    """Return the verdict and its main reasons."""
    verdict, settings = report["verdict"], report["settings"]
    outcome = OUTCOMES.get(verdict, "soft")
    facts = (
        f"run {report['run']['id']}",
        f"{', '.join(report['capture']['files'])} onto cluster {report['target']['cluster_id']}",
        *pace_facts(settings),
        f"groups {settings['groups']}",
    )
    reasons = list(report["because"][:MOST_REASONS])
    if len(report["because"]) > MOST_REASONS:
        reasons.append(f"and {len(report['because']) - MOST_REASONS} more, below")
    note = noise_note(report)
    content = element(
        "div",
        element("div", "kdissect replay", class_="brand"),
        element("h1", verdict.capitalize(), class_=outcome),
        element("p", *(element("span", fact) for fact in facts), class_="meta"),
        element(
            "div",
            element("p", VERDICTS[verdict]),
            element("ul", *(element("li", reason) for reason in reasons)) if reasons else NOTHING,
            class_=f"verdict {outcome}",
        ),
        _performance(report["performance"]),
        element("p", note, class_="meta") if note else NOTHING,
    )
    return element("header", element("div", content, class_="wide"), class_="top")


def _performance(performance: Mapping[str, Any]) -> Markup:
    """Return the verdict on latencies, with what decided it."""
    reasons = [element("li", reason) for reason in performance["because"]]
    return element(
        "div",
        element("p", f"Performance: {performance['verdict']}. {performance_note(performance)}"),
        element("ul", *reasons) if reasons else NOTHING,
        class_=f"verdict {SPEEDS[performance['verdict']]}",
    )


def _figures(report: Report) -> Markup:
    accounting, records = report["accounting"], report["records"]["topics"]
    counted, _ = _by_weight(report)
    failed = sum(not check["holds"] for check in report["checks"])
    captured, replayed = (sum(topic[key] for topic in records) for key in ("captured", "replayed"))
    figures = (
        ("Captured requests", f"{accounting['captured']:,}", ""),
        ("Sent", f"{accounting['sent']:,}", _share(accounting, "sent")),
        ("Skipped", f"{accounting['skipped']:,}", _share(accounting, "skipped")),
        (
            "Errors that differ",
            _none_is_good(sum(error["requests"] for error in counted)),
            "beside those of the cluster itself",
        ),
        ("Checks that fail", _none_is_good(failed), f"of {len(report['checks'])}"),
        ("Records acknowledged", f"{replayed:,}", f"{captured:,} when captured"),
    )
    drawn = (
        element(
            "div",
            element("div", name, class_="name"),
            element("div", value, class_="value"),
            element("div", more, class_="more"),
            class_="figure",
        )
        for name, value, more in figures
    )
    return element("section", element("div", *drawn, class_="figures"))


def _requests(report: Report) -> Markup:
    accounting = report["accounting"]
    ends = [
        (name, count) for key in ("sent_as", "skipped_as") for name, count in accounting[key].items() if count
    ]
    return _section(
        "Every captured request",
        sum_of_requests(accounting),
        shares_bar(ends),
        _table(skipped_table(report)),
    )


def _timeline(report: Report) -> Markup:
    if not report["accounting"]["sent"]:
        return NOTHING
    charts = timeline_charts(report["course"])
    return _section("Course of the run", "captured against replayed, by the run's time", *charts)


def _errors(report: Report) -> Markup:
    counted, others = _by_weight(report)
    found = _table(error_table(report, counted)) or element("p", "None that counts.", class_="empty good")
    if others:
        note = f"Not counted: the same on both sides, or {OF_THE_CLUSTER}."
        found = joined(found, element("p", note, class_="soft"), _table(error_table(report, others)))
    return _section("Errors", "captured against replayed", found)


def _by_weight(report: Report) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    """Return the errors that count, and the others: the same on both sides, or of the cluster."""
    counted = [error for error in report["errors"] if error["kind"] != "same" and not error["expected"]]
    return counted, [error for error in report["errors"] if error not in counted]


def _checks(report: Report) -> Markup:
    return _section(
        "Checks",
        "what must hold on any cluster",
        element("ul", *map(_check, report["checks"]), class_="evidence"),
    )


def _check(check: Mapping[str, Any]) -> Markup:
    mark, result = ("good", "holds") if check["holds"] else ("bad", "fails")
    if check["found"]:
        result += f": {check['found']}"
    name = element("span", check["check"], class_="subject")
    return element("li", name, " ", element("span", result, class_=mark))


def _records(report: Report) -> Markup:
    records = report["records"]
    note = (
        f"{records['sent_without_acknowledgement']:,} records were sent with acks=0; fetches brought "
        f"{records['fetched_captured']:,} records in the capture and {records['fetched_replayed']:,} on the "
        "target."
    )
    for each in (records["amplification"] or {}).get("reasons", ()):
        note += f" {each['records']:,} {each['reason']}."
    return _section(
        "Records acknowledged",
        "by topic",
        _table(record_table(report)) or element("p", "Nothing was produced.", class_="empty"),
        element("p", note, class_="soft"),
    )


def _latencies(report: Report) -> Markup:
    columns, rows = latency_table(report)
    bars = latency_bars(report["latency"])
    drawn: list[Row] = [(row[0], bar, *row[1:]) for row, bar in zip(rows, bars, strict=True)]
    titles = (*columns[:1], *words("p99, captured above replayed"), *columns[1:])
    note = (
        "Captured: as seen where the capture was taken. Service: from sending to the response. "
        "Response: from the scheduled moment, so that waiting in the replayer shows."
    )
    return _section(
        "Latency",
        "without idle waits; bars are logarithmic",
        element("p", note, class_="soft"),
        _table(RunTable(titles, []), drawn),
    )


def _lags(report: Report) -> Markup:
    on_time = element("p", "Every request was sent on time.", class_="empty good")
    return _section("Behind schedule", "by cause", _table(lag_table(report)) or on_time)


def _workers(report: Report) -> Markup:
    """Return the machines that have sent, if there were several."""
    workers = report["run"].get("workers") or ()
    return _section("Workers", start_spread(workers), _table(worker_table(report))) if workers else NOTHING


def _rewrites(report: Report) -> Markup:
    rules = report["run"]["offsets"]["rules"]
    return _section(
        "Rewrites and offsets",
        "what was changed for the target beside names and ids",
        _table(rewrite_table(report)) or element("p", "Nothing was rewritten.", class_="empty"),
        _table(offset_table(report)),
        element("p", used_rules(rules), class_="soft") if rules else NOTHING,
    )


def _foot(run: Mapping[str, Any]) -> Markup:
    connections = run["connections"]
    note = (
        f"Made by kdissect {run['kdissect']}. {connections['opened']:,} connections opened, "
        f"{connections['refused']:,} refused, {connections['closed_by_peer']:,} closed by the target; "
        f"at most {run['peak_in_flight']:,} requests in flight on {run['peak_lines']:,} connections. "
        "This file makes no network request."
    )
    return element("footer", element("div", note, class_="wide"), class_="foot")


def _section(title: str, about: str, *content: object) -> Markup:
    head = element("div", element("h2", title), element("span", about, class_="about"), class_="head")
    return element("section", head, *content)


def _share(accounting: Mapping[str, Any], name: str) -> str:
    return format_share(accounting[name] / accounting["captured"]) if accounting["captured"] else ""


def _none_is_good(number: int) -> Markup:
    return element("span", f"{number:,}", class_="bad") if number else Markup("none")


def _table(table: RunTable, drawn: Iterable[Row] = ()) -> Markup:
    """Return a table, of `drawn` rows if there are some; nothing for one without rows.

    A table begins with words, so a count that stands first in the text stands last here.
    """
    rows: list[Row] = [*table.rows, *drawn]
    if not rows:
        return NOTHING
    columns = table.columns
    if columns[0].right:
        columns, rows = (*columns[1:], columns[0]), [(*row[1:], row[0]) for row in rows]
    marks = ["n" if column.right else "t" if number else "first" for number, column in enumerate(columns)]
    titles = [
        element("th", _capitalized(column.title), scope="col", class_=mark)
        for column, mark in zip(columns, marks, strict=True)
    ]
    lines = [
        element(
            "tr", *(element("td", _cell(value), class_=mark) for value, mark in zip(row, marks, strict=True))
        )
        for row in rows
    ]
    content = joined(element("thead", element("tr", *titles)), element("tbody", *lines))
    return element("div", element("table", content), class_="scroll", tabindex=0)


def _capitalized(title: str) -> str:
    """Return a title with a capital letter, but for percentiles such as p99."""
    return title if title[1:2].isdigit() else title[:1].upper() + title[1:]


def _cell(value: "Value | Markup") -> Markup:
    if isinstance(value, Markup):
        return value
    if value is None:
        return element("span", "–", class_="faint")
    if isinstance(value, int):
        return Markup(f"{value:,}")
    text = joined(*_between(value.split("_"), joined("_", LINE_BREAK_HERE)))
    short = len(value) <= SHORT and not value[:1].isdigit()
    return element("span", text, class_="nowrap") if short else text


def _between(parts: Iterable[str], mark: Markup) -> Iterator[Markup]:
    for number, part in enumerate(parts):
        yield from (mark, markup(part)) if number else (markup(part),)
